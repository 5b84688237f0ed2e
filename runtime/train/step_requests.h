// SPDX-License-Identifier: Apache-2.0
// When to write a checkpoint and when to stop before the last step: signals, the clock of rank 0,
// the end of the allocation. Wishes travel as StepFlags and come back as decisions that every rank
// takes after the same step.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/train/step_flags.h"

namespace trireme {

// Of several the largest counts.
enum class StopReason : std::int32_t { none, deadline, terminated };
[[nodiscard]] std::string_view describe(StopReason reason);

// Seconds left at some moment.
struct Deadlines {
  std::optional<double> configured{};  // the run stops then
  std::optional<double> allocation{};  // the run has stopped and saved by then
};
// `deadline_minutes` count from now, 0 = none; `slurm_end_time` is SLURM_JOB_END_TIME in seconds
// since 1970, null or no number = none.
[[nodiscard]] Deadlines deadlines_from(double deadline_minutes, const char* slurm_end_time,
                                       std::chrono::system_clock::time_point now);

struct StepRequestOptions {
  bool leader = false;           // rank 0: its clock counts, other ranks only pass on signals
  std::int64_t every_steps = 0;  // 0 = never
  double every_minutes = 0;      // 0 = never
  Deadlines deadlines{};
};

struct StepDecision {
  bool checkpoint = false;
  StopReason stop = StopReason::none;
};

class StepRequests {
 public:
  using Clock = std::chrono::steady_clock;
  explicit StepRequests(const StepRequestOptions& options, Clock::time_point now = Clock::now());

  // What this rank wishes for now; once a step.
  [[nodiscard]] StepFlags flags(Clock::time_point now = Clock::now());
  // Takes in the flags that all ranks agreed on; what they ask for stands until it is taken.
  void agree(const StepFlags& agreed);
  // What is due after `done` steps, agreed or by their number; called after every step.
  [[nodiscard]] StepDecision take(std::int64_t done);
  // A checkpoint was started, whatever for, and took the loop this long.
  void saved(double seconds, Clock::time_point now = Clock::now());

 private:
  [[nodiscard]] bool past_deadline(Clock::time_point now) const;
  [[nodiscard]] double margin_seconds() const;

  StepRequestOptions options_;
  Clock::time_point start_, last_save_, last_step_;
  double longest_save_, longest_step_ = 0;
  bool longest_save_is_assumed_ = true;
  StepFlags mine_, honoured_;
  StepDecision pending_;
};

}  // namespace trireme
