// SPDX-License-Identifier: Apache-2.0
// An event is a (stream, ticket) pair, so a wait uses the point recorded at that time, even if the
// event is recorded again later. A task on the recording stream writes the time stamp.
#pragma once

#include <chrono>
#include <memory>

#include "runtime/device/cpu/cpu_stream.h"

namespace trireme {

class CpuEvent final : public Event {
 public:
  CpuEvent();
  [[nodiscard]] static CpuEvent& of(Event& event);

  [[nodiscard]] bool reached() const override;
  void synchronize() override;
  [[nodiscard]] double milliseconds_since(const Event& start) const override;

  void record_on(CpuStream& stream);
  void make_wait(CpuStream& stream);

 private:
  struct State;
  struct Point {
    std::shared_ptr<StreamCore> core;  // null: reached when recorded
    StreamCore::Ticket ticket = 0;
  };
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] Point point() const;
  [[nodiscard]] Clock::time_point time() const;

  std::shared_ptr<State> state_;  // shared with the task that writes the time stamp
};

}  // namespace trireme
