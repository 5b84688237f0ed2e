// SPDX-License-Identifier: Apache-2.0
// When to write a checkpoint, to test ranks, and to stop before the last step: signals, the clock
// of rank 0, the end of the allocation, a requested step. Requests are sent as StepFlags and become
// decisions that every rank takes after the same step.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/train/step/step_flags.h"

namespace trireme {

// If several apply, the largest counts.
enum class StopReason : std::int32_t { none, reached, deadline, terminated, interrupted };
[[nodiscard]] std::string_view describe(StopReason reason);

// Seconds left at some moment.
struct Deadlines {
  std::optional<double> configured{};  // the run stops by then
  std::optional<double> allocation{};  // the run has stopped and saved by then
};

// How long before the end of the allocation a run must stop, given its save and step times.
[[nodiscard]] double stop_margin_seconds(double save_seconds, double step_seconds);

struct StepRequestOptions {
  bool leader = false;           // rank 0: its clock counts; other ranks only forward signals
  std::int64_t every_steps = 0;  // 0 = never
  std::int64_t in_memory_every_steps = 0;  // 0 = never
  std::int64_t until = 0;                  // the run stops after this step; 0 = at its last
  double every_minutes = 0;                // 0 = never
  double test_minutes = 0;                 // between self tests; 0 = never
  Deadlines deadlines{};
  std::optional<double> earlier_save_seconds{};  // duration of a save when the run last ran
  double seconds_before = 0;                     // since the launch
};

struct StepDecision {
  bool checkpoint = false;
  bool memory_copy = false;  // if no checkpoint is due anyway
  bool self_test = false;
  StopReason stop = StopReason::none;
};

class StepRequests {
 public:
  using Clock = std::chrono::steady_clock;
  explicit StepRequests(const StepRequestOptions& options, Clock::time_point now = Clock::now());

  // This rank's requests now; call it once a step.
  [[nodiscard]] StepFlags flags(Clock::time_point now = Clock::now());
  // Stores the flags that all ranks agreed on, until take().
  void agree(const StepFlags& agreed);
  // The actions due after `done` steps, agreed or by step count; call it after every step.
  [[nodiscard]] StepDecision take(std::int64_t done);
  // Call it when a checkpoint was started, for any reason.
  void saved(Clock::time_point now = Clock::now());
  // Call it when one is complete, with its duration.
  void save_took(double seconds);

  // The longest so far; 0: unknown.
  [[nodiscard]] std::optional<double> save_seconds() const { return measured_save_; }
  [[nodiscard]] double step_seconds() const { return longest_step_; }
  // From launch to first step.
  [[nodiscard]] double seconds_to_first_step() const {
    return options_.seconds_before + before_first_step_.value_or(0);
  }

 private:
  [[nodiscard]] bool past_deadline(Clock::time_point now) const;
  [[nodiscard]] double margin_seconds() const;

  StepRequestOptions options_;
  Clock::time_point start_, last_save_, last_test_, last_step_;
  double longest_step_ = 0;
  std::optional<double> measured_save_, before_first_step_;
  StepFlags mine_, honoured_;
  StepDecision pending_;
};

}  // namespace trireme
