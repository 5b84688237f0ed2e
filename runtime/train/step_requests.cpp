// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/step_requests.h"

#include <algorithm>

#include "runtime/train/signal_requests.h"

namespace trireme {
namespace {

// Until the first save is timed.
constexpr double assumed_save_seconds = 60;
// Until a save of this start is timed: another layout, file system or load may be slower.
constexpr double earlier_save_factor = 1.5;
// Time for launcher and batch script to end the job.
constexpr double shutdown_seconds = 30;
// The running step, the next one, after which requests are known, and a slow one.
constexpr double steps_before_stop = 3;

double seconds_between(StepRequests::Clock::time_point from, StepRequests::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

std::string_view describe(StopReason reason) {
  switch (reason) {
    case StopReason::none:
      return "not stopped";
    case StopReason::reached:
      return "the step that --until names";
    case StopReason::deadline:
      return "the deadline";
    case StopReason::terminated:
      return "SIGTERM";
    case StopReason::interrupted:
      return "SIGINT";
  }
  return "?";
}

double stop_margin_seconds(double save_seconds, double step_seconds) {
  return save_seconds + steps_before_stop * step_seconds + shutdown_seconds;
}

StepRequests::StepRequests(const StepRequestOptions& options, Clock::time_point now)
    : options_(options), start_(now), last_save_(now), last_test_(now), last_step_(now) {}

StepFlags StepRequests::flags(Clock::time_point now) {
  mine_[StepFlags::checkpoint_signals] = SignalRequests::checkpoints();
  const auto wish = [&](StopReason reason) {
    auto& stop = mine_[StepFlags::stop];
    stop = std::max(stop, static_cast<std::int32_t>(reason));
  };
  if (SignalRequests::terminated()) wish(StopReason::terminated);
  if (SignalRequests::interrupted()) wish(StopReason::interrupted);
  if (!options_.leader) return mine_;
  if (before_first_step_) {
    longest_step_ = std::max(longest_step_, seconds_between(last_step_, now));
  } else {
    before_first_step_ = seconds_between(start_, now);
  }
  last_step_ = now;
  if (past_deadline(now)) wish(StopReason::deadline);
  if (options_.every_minutes > 0 &&
      seconds_between(last_save_, now) >= 60 * options_.every_minutes) {
    ++mine_[StepFlags::checkpoint_times];
    last_save_ = now;
  }
  if (options_.test_minutes > 0 && seconds_between(last_test_, now) >= 60 * options_.test_minutes) {
    ++mine_[StepFlags::self_test_times];
    last_test_ = now;
  }
  return mine_;
}

void StepRequests::agree(const StepFlags& agreed) {
  const auto is_new = [&](StepFlags::Index index) {
    const bool more = agreed[index] > honoured_[index];
    honoured_[index] = std::max(honoured_[index], agreed[index]);
    return more;
  };
  if (is_new(StepFlags::checkpoint_signals)) pending_.checkpoint = true;
  if (is_new(StepFlags::checkpoint_times)) pending_.checkpoint = true;
  if (is_new(StepFlags::self_test_times)) pending_.self_test = true;
  pending_.stop = std::max(pending_.stop, static_cast<StopReason>(agreed[StepFlags::stop]));
}

StepDecision StepRequests::take(std::int64_t done) {
  StepDecision decision = pending_;
  pending_.checkpoint = false;
  pending_.self_test = false;
  if (options_.until > 0 && done >= options_.until)
    decision.stop = std::max(decision.stop, StopReason::reached);
  const auto due = [done](std::int64_t every) { return every > 0 && done % every == 0; };
  decision.checkpoint |= due(options_.every_steps) || decision.stop != StopReason::none;
  decision.memory_copy = due(options_.in_memory_every_steps) && !decision.checkpoint;
  return decision;
}

void StepRequests::saved(Clock::time_point now) {
  last_save_ = now;
}

void StepRequests::save_took(double seconds) {
  measured_save_ = std::max(measured_save_.value_or(0), seconds);
}

bool StepRequests::past_deadline(Clock::time_point now) const {
  const double past = seconds_between(start_, now);
  const auto& [configured, allocation] = options_.deadlines;
  return (configured && past >= *configured) ||
         (allocation && past >= *allocation - margin_seconds());
}

double StepRequests::margin_seconds() const {
  const std::optional<double>& earlier = options_.earlier_save_seconds;
  const double expected = earlier ? earlier_save_factor * *earlier : assumed_save_seconds;
  return stop_margin_seconds(measured_save_.value_or(expected), longest_step_);
}

}  // namespace trireme
