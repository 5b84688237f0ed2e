// SPDX-License-Identifier: Apache-2.0
// What ranks wish for at a step, brought to all of them behind the step: every rank reads the same
// values with the same step's losses, and nobody waits.
#pragma once

#include <array>
#include <memory>

#include "runtime/comm/process_mesh.h"

namespace trireme {

// The largest value of any rank counts, so a wish that several ranks have at different steps (a
// signal that reaches them one after another) is a count, not a bit.
struct StepFlags {
  enum Index : int {
    checkpoint_signals,  // so many times asked for from outside
    checkpoint_times,    // so many times due by the clock
    stop,                // StopReason
    count
  };
  std::array<std::int32_t, count> values{};
  [[nodiscard]] std::int32_t operator[](Index index) const {
    return values[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] std::int32_t& operator[](Index index) {
    return values[static_cast<std::size_t>(index)];
  }
  friend bool operator==(const StepFlags&, const StepFlags&) = default;
};

// One of the places that steps take turns in.
class FlagExchange {
 public:
  FlagExchange(Device& device, const ProcessMesh& mesh);

  // Leaves this rank's flags on the host, where the step will read them.
  void stage(const StepFlags& flags);
  // Enqueues the maximum over all ranks and its copy to the host.
  void publish(Stream& comm);
  void join(Stream& compute) { compute.wait(*there_); }
  // Of a step whose work is done.
  [[nodiscard]] StepFlags read() const;

 private:
  Device& device_;
  const ProcessMesh& mesh_;
  Buffer mine_, flags_, agreed_;  // (StepFlags::count) i32: host, device, host
  std::unique_ptr<Event> there_;
};

}  // namespace trireme
