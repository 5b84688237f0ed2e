// SPDX-License-Identifier: Apache-2.0
// Every reported number, once: name, unit, meaning and source. Lines of metrics.jsonl, files for
// other tools and `trireme report --metrics` are made from this table.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/telemetry/metrics.h"

namespace trireme {

enum class MetricKind : std::uint8_t {
  gauge,
  counter  // decreases only when a run returns to an earlier step
};

enum class MetricDigits : std::uint8_t {
  whole,
  exact,       // with digits that read back equal
  thousandths  // for measured times
};

struct MetricInfo {
  std::string_view name;  // key in metrics.jsonl; "items" in it means tokens or images
  std::string_view unit;  // "1" for dimensionless; "items" as in `name`
  MetricKind kind;
  MetricDigits digits;
  std::string_view meaning;
};

// Empty if this step or evaluation lacks it.
struct StepMetric : MetricInfo {
  std::optional<double> (*read)(const StepMetrics& metrics) = nullptr;
  TimePart time{};  // if `read` is null
  [[nodiscard]] std::optional<double> value(const StepMetrics& metrics) const {
    return read != nullptr ? read(metrics) : metrics.times[time];
  }
};
struct EvaluationMetric : MetricInfo {
  std::optional<double> (*value)(const EvaluationMetrics& metrics);
};

// The run itself, for monitoring tools; not in metrics.jsonl.
struct RunProgress {
  std::int64_t steps = 0;  // done, including earlier starts
  std::chrono::system_clock::time_point last_report{};
  std::int64_t failed_saves = 0;  // of this start
  bool running = false;
};
struct RunMetric : MetricInfo {
  std::optional<double> (*value)(const RunProgress& state);
};

// In the order of a line, without "step".
[[nodiscard]] std::span<const StepMetric> step_metrics();
[[nodiscard]] std::span<const EvaluationMetric> evaluation_metrics();
[[nodiscard]] std::span<const RunMetric> run_metrics();

// "items_per_s" -> "tokens_per_s".
[[nodiscard]] std::string name_for(std::string_view name_or_unit, ItemKind kind);

}  // namespace trireme
