// SPDX-License-Identifier: Apache-2.0
// Exchange between ranks after every step: their requests, and the times of the last step that they
// have read. Every rank reads the same values with the same step's losses, and none waits.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/comm/process_mesh.h"
#include "runtime/train/meters/time_split.h"
#include "runtime/train/step/step_flags.h"

namespace trireme {

// One of the slots between which steps alternate.
class StepExchange {
 public:
  StepExchange(Device& device, const ProcessMesh& mesh);

  // Stages this rank's note on the host for the step: `times` are those of step `timed`, the same
  // on all ranks; below 0: none.
  void stage(const StepFlags& flags, std::int64_t timed, const RankStep& times);
  // Enqueues the exchange and its copy to the host.
  void publish(Stream& comm);
  // Reads a finished step, including its work on the comm stream.
  void read();
  // The maximum over all ranks.
  [[nodiscard]] const StepFlags& flags() const { return agreed_; }
  [[nodiscard]] std::int64_t timed() const { return timed_; }
  // For step timed(), by rank; valid until the next read().
  [[nodiscard]] std::span<const RankStep> times() const { return times_; }

 private:
  Device& device_;
  const ProcessMesh& mesh_;
  // Notes: this rank's on the host and the device; of its data group; of all ranks, ordered by
  // (pipeline, tensor, data), on the device and the host.
  Buffer staged_, mine_, group_, all_, host_;
  StepFlags agreed_{};
  std::int64_t timed_ = -1;
  std::vector<RankStep> times_;
};

}  // namespace trireme
