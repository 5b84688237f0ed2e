// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/batch_ramp.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "runtime/base/error.h"
#include "runtime/config/config.h"

namespace trireme {
namespace {

// Their product bounds the samples of a run to 64 bits.
constexpr std::int64_t last_step = std::int64_t{1} << 32, largest_size = std::int64_t{1} << 30;

std::int64_t common_divisor(std::span<const BatchRamp::Point> points) {
  std::int64_t divisor = 0;
  for (const BatchRamp::Point& point : points)
    divisor = std::gcd(divisor, point.size);
  return divisor;
}

}  // namespace

BatchRamp::BatchRamp(std::span<const Point> points, RampForm form) {
  TRIREME_EXPECTS(!points.empty() && points.front().step == 0, "a ramp from step 0");
  const std::int64_t unit = common_divisor(points);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto [step, size] = points[i];
    append(step, size);
    if (form == RampForm::stepwise || i + 1 == points.size()) continue;
    const auto [end, last] = points[i + 1];
    const std::int64_t steps = end - step, units = (last - size) / unit;
    // The first step at which the size has grown by `k` units.
    for (std::int64_t k = 1; k < units; ++k)
      append(step + (k * steps + units - 1) / units, size + k * unit);
  }
}

void BatchRamp::append(std::int64_t step, std::int64_t size) {
  if (!phases_.empty() && phases_.back().size == size) return;
  if (phases_.empty()) {
    phases_.push_back({step, size, 0});
    return;
  }
  if (phases_.back().first_step == step) {
    phases_.back().size = size;
    return;
  }
  phases_.push_back({step, size, samples_before(step)});
}

const BatchRamp::Phase& BatchRamp::at(std::int64_t step) const {
  TRIREME_EXPECTS(step >= 0, "step {}", step);
  return *std::prev(std::ranges::upper_bound(phases_, step, {}, &Phase::first_step));
}

std::int64_t BatchRamp::samples_before(std::int64_t step) const {
  const Phase& phase = at(step);
  return phase.samples_before + (step - phase.first_step) * phase.size;
}

std::int64_t BatchRamp::step_of(std::int64_t sample) const {
  TRIREME_EXPECTS(sample >= 0, "sample {}", sample);
  const Phase& phase =
      *std::prev(std::ranges::upper_bound(phases_, sample, {}, &Phase::samples_before));
  return phase.first_step + (sample - phase.samples_before) / phase.size;
}

std::vector<BatchRamp::Point> ramp_points(std::span<const std::string> texts, std::string& problem,
                                          std::string_view unit) {
  std::vector<BatchRamp::Point> points;
  for (const std::string& text : texts) {
    BatchRamp::Point point;
    const char* const end = text.data() + text.size();
    const auto step = std::from_chars(text.data(), end, point.step);
    const bool split = step.ec == std::errc() && step.ptr != end && *step.ptr == ':';
    const auto size = split ? std::from_chars(step.ptr + 1, end, point.size) : step;
    if (!split || size.ec != std::errc() || size.ptr != end || point.step < 0 ||
        point.step > last_step || point.size < 1 || point.size > largest_size) {
      problem = fmt::format(
          "\"{}\" is not STEP:SIZE: from STEP on (counted from 0) there are SIZE {}", text, unit);
      return {};
    }
    points.push_back(point);
  }
  if (!points.empty() && points.front().step != 0)
    problem = fmt::format("begins at step {}; add the size for step 0", points.front().step);
  for (std::size_t i = 1; i < points.size(); ++i) {
    const auto [step, size] = points[i - 1];
    if (points[i].step <= step)
      problem = fmt::format("step {} does not come after step {}", points[i].step, step);
    if (points[i].size <= size)
      problem =
          fmt::format("{} {} are not more than {}; sizes must grow", points[i].size, unit, size);
  }
  return points;
}

std::int64_t sizes_of(std::span<const BatchRamp::Point> points, RampForm form) {
  if (form == RampForm::stepwise) return std::ssize(points);
  return (points.back().size - points.front().size) / common_divisor(points) + 1;
}

BatchRamp batch_ramp(const TrainConfig& train) {
  if (train.batch_ramp.empty()) return BatchRamp(train.global_batch);
  std::string problem;
  const auto points = ramp_points(train.batch_ramp, problem);
  return {points, train.batch_ramp_form};
}

bool evaluation_is_due(const TrainConfig& train, std::int64_t done) {
  if (train.eval_every > 0) return done % train.eval_every == 0;
  if (train.eval_every_samples == 0) return false;
  const BatchRamp ramp = batch_ramp(train);
  const auto passed = [&](std::int64_t steps) {
    return ramp.samples_before(steps) / train.eval_every_samples;
  };
  return passed(done) > passed(done - 1);
}

BatchRamp context_ramp(const TrainConfig& train) {
  std::string problem;
  return {ramp_points(train.context_ramp, problem), RampForm::stepwise};
}

}  // namespace trireme
