// SPDX-License-Identifier: Apache-2.0
#include "launch/ablate/curve.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/base/json.h"
#include "runtime/base/line_reader.h"

namespace trireme::ablate {
namespace {

using json = nlohmann::json;

std::optional<double> number_in(const json& line, const std::string& key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return {};
  return found->get<double>();
}

// A run that went back has its steps again.
void put(std::vector<Curve::Value>& values, const Curve::Value& value) {
  while (!values.empty() && values.back().place.steps >= value.place.steps)
    values.pop_back();
  values.push_back(value);
}

// On the line from one evaluation to the next.
double between(const Curve::Value& one, const Curve::Value& next, Axis axis, double amount) {
  const double from = one.place.at(axis), to = next.place.at(axis);
  const double share = to > from ? std::clamp((amount - from) / (to - from), 0.0, 1.0) : 0.0;
  return share == 0 ? one.loss : one.loss + share * (next.loss - one.loss);
}

constexpr double no_loss = std::numeric_limits<double>::quiet_NaN();

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
  Curve curve;
  double evaluated = 0;  // seconds so far
  while (const auto text = lines.next()) {
    const json line = json_or_discarded(*text);
    if (!line.is_object()) continue;
    const auto step = number_in(line, "step");
    if (!step) continue;
    if (const auto step_ms = number_in(line, "step_ms")) {
      double before = evaluated;
      evaluated = 0;
      while (!curve.training.empty() && curve.training.back().place.steps >= *step)
        curve.training.pop_back();
      before += curve.end().seconds;
      curve.training.push_back(
          {.place = {.steps = *step,
                     .items = number_in(line, item_name + "_seen").value_or(curve.end().items),
                     .seconds = before + 1e-3 * *step_ms},
           .loss = number_in(line, "loss").value_or(no_loss)});
    } else if (const auto loss = number_in(line, "validation_loss")) {
      evaluated += 1e-3 * number_in(line, "evaluation_ms").value_or(0);
      Curve::Place place = curve.end();
      place.seconds += evaluated;
      put(curve.evaluations, {.place = place, .loss = *loss});
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
