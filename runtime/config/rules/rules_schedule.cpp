// SPDX-License-Identifier: Apache-2.0
// Steps, learning-rate schedule and optimizer.
#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "runtime/config/lr_factors.h"
#include "runtime/config/rules/rules.h"

namespace trireme::config {
namespace {

void check_counters(const Subject& subject) {
  const Config& config = subject.config;
  const std::int64_t per_sample = subject.family().targets(config.model).shape.count();
  std::int64_t total = 0;
  if (__builtin_mul_overflow(config.train.steps, config.train.global_batch, &total) ||
      __builtin_mul_overflow(total, per_sample, &total)) {
    refuse(subject, "train.steps",
           "{} steps of {} samples of {} tokens overflow a 63-bit count; use fewer",
           config.train.steps, config.train.global_batch, per_sample);
  }
}

void check_lr_schedule(const Subject& subject) {
  const LrScheduleConfig& schedule = subject.config.lr_schedule;
  if (schedule.warmup_steps > subject.config.train.steps) {
    refuse(subject, "lr_schedule.warmup_steps", "{} is more than train.steps = {}; use {} or less",
           schedule.warmup_steps, subject.config.train.steps, subject.config.train.steps);
  }
  if (schedule.name == LrDecay::exponential && schedule.minimum_ratio == 0) {
    refuse(
        subject, "lr_schedule.minimum_ratio",
        "0 with lr_schedule.name: exponential, which never reaches it; use a share above 0, such "
        "as 0.01");
  }
  if (schedule.name != LrDecay::multistep) return;
  constexpr std::string_view key = "lr_schedule.factors";
  if (schedule.factors.empty())
    refuse(subject, key,
           "is empty with lr_schedule.name: multistep; give steps and factors, such as "
           "[\"1000:0.1\"], or use lr_schedule.name: constant");
  std::string problem;
  const std::vector<LrFactor> factors = lr_factors(schedule.factors, problem);
  if (!problem.empty()) refuse(subject, key, "{}", problem);
  if (factors.front().step < schedule.warmup_steps)
    refuse(subject, key,
           "step {} is before the end of lr_schedule.warmup_steps = {}; use step {} or later",
           factors.front().step, schedule.warmup_steps, schedule.warmup_steps);
}

}  // namespace

void check_schedule(const Subject& subject) {
  const Config& config = subject.config;
  check_counters(subject);
  check_lr_schedule(subject);
  if (const std::string& trace = config.telemetry.trace; !trace.empty()) {
    const std::string problem = problem_of_trace_steps(trace, config.train.steps);
    if (!problem.empty()) refuse(subject, "telemetry.trace", "{}", problem);
  }
  if (in_addr parsed{};
      ::inet_pton(AF_INET, config.telemetry.prometheus_address.c_str(), &parsed) != 1)
    refuse(subject, "telemetry.prometheus_address",
           "{} is not an IPv4 address; use 127.0.0.1, 0.0.0.0 for all interfaces, or one of this "
           "host",
           config.telemetry.prometheus_address);
  for (const auto& [key, every] :
       {std::pair{"telemetry.histograms_every", config.telemetry.histograms_every},
        std::pair{"telemetry.samples_every", config.telemetry.samples_every}}) {
    if (every > 0 && !config.telemetry.tensorboard)
      refuse(subject, key,
             "{} needs telemetry.tensorboard, which is false; set it to true, or use 0", every);
  }
  const LossScaleConfig& scale = config.loss_scale;
  if (scale.minimum > scale.initial) {
    refuse(subject, "loss_scale.minimum", "{} is more than loss_scale.initial = {}; use {} or less",
           scale.minimum, scale.initial, scale.initial);
  }
  if (config.optimizer.name == OptimizerKind::sgd && config.optimizer.nesterov &&
      config.optimizer.momentum == 0) {
    refuse(subject, "optimizer.nesterov",
           "true needs optimizer.momentum above 0; use momentum: 0.9 or nesterov: false");
  }
}

}  // namespace trireme::config

namespace trireme {

namespace {

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || text.front() == '-' || error != std::errc() || stop != end)
    return std::nullopt;
  return value;
}

}  // namespace

std::optional<TraceSteps> parse_trace_steps(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number(text.substr(dash + 1));
  if (!first || !last) return std::nullopt;
  return TraceSteps{*first, *last};
}

std::string problem_of_trace_steps(std::string_view text, std::int64_t steps) {
  const auto traced = parse_trace_steps(text);
  if (!traced)
    return fmt::format(
        "{} is neither a step nor a range of steps; write 10, 10-12, or \"\" for no "
        "trace",
        text);
  const auto [first, last] = *traced;
  if (first < 1) return fmt::format("{}: steps count from 1", text);
  if (last < first) return fmt::format("{} ends before it begins; write {}-{}", text, last, first);
  if (last > steps)
    return fmt::format(
        "{} is beyond the run's last step, train.steps = {}; trace steps up to {}, "
        "such as {}",
        text, steps, steps, std::min(first, steps));
  if (last - first >= most_traced_steps)
    return fmt::format("{} are {} steps and a trace has {} at most; write {}-{}", text,
                       last - first + 1, most_traced_steps, first, first + most_traced_steps - 1);
  return {};
}

}  // namespace trireme
