// SPDX-License-Identifier: Apache-2.0
#include "launch/top/metrics_line.h"
#include "runtime/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace trireme::top {
namespace {

using LineJson = nlohmann::json;

double number_in(const LineJson& line, std::string_view key, double otherwise = unknown) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number() ? found->get<double>() : otherwise;
}

std::string text_in(const LineJson& line, std::string_view key) {
  const auto found = line.find(key);
  if (found == line.end()) return "";
  return found->is_string() ? found->get<std::string>()
                            : found->dump(-1, ' ', false, LineJson::error_handler_t::replace);
}

StepLine step_in(const LineJson& line, std::int64_t number) {
  StepLine step{.step = number,
                .loss = number_in(line, "loss"),
                .grad_norm = number_in(line, "grad_norm"),
                .lr = number_in(line, "lr"),
                .epoch = number_in(line, "epoch"),
                .step_ms = number_in(line, "step_ms"),
                .core_wait_ms = number_in(line, "core_wait_ms"),
                .mfu = number_in(line, "mfu"),
                .joules = number_in(line, "joules")};
  for (const std::string_view items : {"tokens", "images"}) {
    const double rate = number_in(line, fmt::format("{}_per_s", items));
    if (std::isnan(rate)) continue;
    step.items_per_s = rate;
    step.items = items;
  }
  for (std::size_t i = 0; i < step_parts.size(); ++i)
    step.parts_ms[i] = std::max(number_in(line, step_parts[i].key, 0.0), 0.0);
  return step;
}

}  // namespace

MetricsLine parse_metrics_line(std::string_view text) {
  const LineJson line = json_or_discarded(text);
  if (!line.is_object()) return OtherLine{};
  const double number = number_in(line, "step");
  if (!(number >= 0 && number < 0x1p53)) return OtherLine{};
  const auto step = static_cast<std::int64_t>(number);
  if (line.contains("loss")) return step_in(line, step);
  if (line.contains("validation_loss"))
    return EvaluationLine{.step = step,
                          .loss = number_in(line, "validation_loss"),
                          .accuracy = number_in(line, "accuracy"),
                          .seconds = 1e-3 * number_in(line, "evaluation_ms", 0.0)};
  if (line.contains("checkpoint_failed"))
    return WarningLine{
        step, fmt::format("checkpoint failed ({} in a row): {}", text_in(line, "failed_saves"),
                          text_in(line, "checkpoint_failed"))};
  if (line.contains("skipped"))
    return WarningLine{step, fmt::format("batch skipped: {}, {} deviations above the mean",
                                         text_in(line, "skipped"), text_in(line, "deviations"))};
  if (line.contains("warning")) {
    const std::string said = text_in(line, "text");
    return WarningLine{step, said.empty() ? text_in(line, "warning") : said};
  }
  return OtherLine{};
}

}  // namespace trireme::top
