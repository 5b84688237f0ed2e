// SPDX-License-Identifier: Apache-2.0
#include "launch/study/ablate/curve.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "launch/run/metrics_line.h"
#include "runtime/base/line_reader.h"

namespace trireme::ablate {
namespace {

// A run that went back repeats its steps.
void go_back(std::vector<Curve::Value>& values, double step) {
  while (!values.empty() && values.back().place.steps >= step)
    values.pop_back();
}

// Linear interpolation between two evaluations.
double between(const Curve::Value& one, const Curve::Value& next, Axis axis, double amount) {
  const double from = one.place.at(axis), to = next.place.at(axis);
  const double share = to > from ? std::clamp((amount - from) / (to - from), 0.0, 1.0) : 0.0;
  return share == 0 ? one.loss : one.loss + share * (next.loss - one.loss);
}

}  // namespace

void Curve::cut(std::int64_t step) {
  const auto later = [&](const Value& value) {
    return value.place.steps > static_cast<double>(step);
  };
  std::erase_if(training, later);
  std::erase_if(evaluations, later);
}

Curve read_curve(const std::string& path, const std::string& item_name) {
  LineReader lines(path);
  runs::MetricsLine line;
  Curve curve;
  double evaluated = 0;  // seconds since the last step
  while (const auto text = lines.next()) {
    const auto kind = line.parse(*text);
    if (kind == runs::MetricsLine::Kind::step) {
      const auto step = static_cast<double>(line.step());
      const double before = std::exchange(evaluated, 0);
      go_back(curve.training, step);
      const Curve::Place end = curve.end();
      curve.training.push_back(
          {.place = {.steps = step,
                     .items = line.number(item_name + "_seen", end.items),
                     .seconds = before + end.seconds + 1e-3 * line.number("step_ms", 0)},
           .loss = line.number("loss")});
    } else if (kind == runs::MetricsLine::Kind::evaluation &&
               std::isfinite(line.number("validation_loss"))) {
      evaluated += 1e-3 * line.number("evaluation_ms", 0);
      Curve::Place place = curve.end();
      place.seconds += evaluated;
      go_back(curve.evaluations, place.steps);
      curve.evaluations.push_back({.place = place, .loss = line.number("validation_loss")});
    }
  }
  return curve;
}

std::optional<double> metric_at(const Study& study, const Curve& curve, Axis axis, double amount) {
  const double enough = amount * (1 + 1e-12);  // sums of milliseconds
  const auto& values = study.metric == Metric::validation_loss ? curve.evaluations : curve.training;
  const auto end = std::ranges::upper_bound(
      values, enough, {}, [&](const Curve::Value& value) { return value.place.at(axis); });
  const auto count = end - values.begin();
  if (count == 0) return {};
  if (study.metric == Metric::validation_loss) {
    if (end == values.end()) return (end - 1)->loss;
    return between(*(end - 1), *end, axis, amount);
  }
  const auto first = end - std::min<std::ptrdiff_t>(count, study.last_losses);
  double sum = 0;
  for (auto value = first; value != end; ++value)
    sum += value->loss;
  return sum / static_cast<double>(end - first);
}

}  // namespace trireme::ablate
