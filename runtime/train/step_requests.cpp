// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/step_requests.h"

#include <algorithm>
#include <charconv>

#include "runtime/train/signal_requests.h"

namespace trireme {
namespace {

// Before the first save has been timed.
constexpr double assumed_save_seconds = 60;
// For a launcher and a batch script to end the job.
constexpr double shutdown_seconds = 30;
// The step that is running, the next one, whose wishes are known after it, and a slow one.
constexpr double steps_before_stop = 3;

double seconds_between(StepRequests::Clock::time_point from, StepRequests::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

std::string_view describe(StopReason reason) {
  switch (reason) {
    case StopReason::none:
      return "not stopped";
    case StopReason::deadline:
      return "the deadline";
    case StopReason::terminated:
      return "SIGTERM";
  }
  return "?";
}

Deadlines deadlines_from(double deadline_minutes, const char* slurm_end_time,
                         std::chrono::system_clock::time_point now) {
  Deadlines deadlines;
  if (deadline_minutes > 0) deadlines.configured = 60 * deadline_minutes;
  if (slurm_end_time == nullptr) return deadlines;
  const std::string_view text = slurm_end_time;
  std::int64_t end = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), end);
  if (error != std::errc{} || rest != text.data() + text.size()) return deadlines;
  deadlines.allocation =
      static_cast<double>(end) - std::chrono::duration<double>(now.time_since_epoch()).count();
  return deadlines;
}

StepRequests::StepRequests(const StepRequestOptions& options, Clock::time_point now)
    : options_(options),
      start_(now),
      last_save_(now),
      last_step_(now),
      longest_save_(assumed_save_seconds) {}

StepFlags StepRequests::flags(Clock::time_point now) {
  mine_[StepFlags::checkpoint_signals] = SignalRequests::checkpoints();
  const auto wish = [&](StopReason reason) {
    auto& stop = mine_[StepFlags::stop];
    stop = std::max(stop, static_cast<std::int32_t>(reason));
  };
  if (SignalRequests::terminated()) wish(StopReason::terminated);
  if (!options_.leader) return mine_;
  longest_step_ = std::max(longest_step_, seconds_between(last_step_, now));
  last_step_ = now;
  if (past_deadline(now)) wish(StopReason::deadline);
  if (options_.every_minutes > 0 &&
      seconds_between(last_save_, now) >= 60 * options_.every_minutes) {
    ++mine_[StepFlags::checkpoint_times];
    last_save_ = now;
  }
  return mine_;
}

void StepRequests::agree(const StepFlags& agreed) {
  for (const auto index : {StepFlags::checkpoint_signals, StepFlags::checkpoint_times}) {
    if (agreed[index] <= honoured_[index]) continue;
    honoured_[index] = agreed[index];
    pending_.checkpoint = true;
  }
  pending_.stop = std::max(pending_.stop, static_cast<StopReason>(agreed[StepFlags::stop]));
}

StepDecision StepRequests::take(std::int64_t done) {
  StepDecision decision = pending_;
  pending_.checkpoint = false;
  const bool by_number = options_.every_steps > 0 && done % options_.every_steps == 0;
  decision.checkpoint |= by_number || decision.stop != StopReason::none;
  return decision;
}

void StepRequests::saved(double seconds, Clock::time_point now) {
  longest_save_ = longest_save_is_assumed_ ? seconds : std::max(longest_save_, seconds);
  longest_save_is_assumed_ = false;
  last_save_ = now;
}

bool StepRequests::past_deadline(Clock::time_point now) const {
  const double past = seconds_between(start_, now);
  const auto& [configured, allocation] = options_.deadlines;
  return (configured && past >= *configured) ||
         (allocation && past >= *allocation - margin_seconds());
}

double StepRequests::margin_seconds() const {
  return longest_save_ + steps_before_stop * longest_step_ + shutdown_seconds;
}

}  // namespace trireme
