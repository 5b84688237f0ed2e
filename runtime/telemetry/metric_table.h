// SPDX-License-Identifier: Apache-2.0
// Every number that a run reports, once: name, unit, meaning, and where its value comes from. Lines
// of metrics.jsonl, files for other tools and `trireme report --metrics` are made from this table.
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
  counter  // falls only where a run goes back to an earlier step
};

enum class MetricDigits : std::uint8_t {
  whole,
  exact,       // as many as read back to the same value
  thousandths  // of what clocks measure
};

struct MetricInfo {
  std::string_view name;  // a key of metrics.jsonl; "items" in it stands for tokens or images
  std::string_view unit;  // "1" for numbers without; "items" as in `name`
  MetricKind kind;
  MetricDigits digits;
  std::string_view meaning;
};

// Empty where this step or evaluation does not have it.
struct StepMetric : MetricInfo {
  std::optional<double> (*read)(const StepMetrics& metrics) = nullptr;
  TimePart time{};  // where `read` is null
  [[nodiscard]] std::optional<double> value(const StepMetrics& metrics) const {
    return read != nullptr ? read(metrics) : metrics.times[time];
  }
};
struct EvaluationMetric : MetricInfo {
  std::optional<double> (*value)(const EvaluationMetrics& metrics);
};

// The run itself, for tools that watch it; not in metrics.jsonl.
struct RunProgress {
  std::int64_t steps = 0;  // done, those of earlier starts included
  std::chrono::system_clock::time_point last_report{};
  std::int64_t failed_saves = 0;  // of this start
  bool running = false;
};
struct RunMetric : MetricInfo {
  std::optional<double> (*value)(const RunProgress& state);
};

// In the order of a line; "step" itself is none of them.
[[nodiscard]] std::span<const StepMetric> step_metrics();
[[nodiscard]] std::span<const EvaluationMetric> evaluation_metrics();
[[nodiscard]] std::span<const RunMetric> run_metrics();

// "items_per_s" -> "tokens_per_s".
[[nodiscard]] std::string name_for(std::string_view name_or_unit, ItemKind kind);

}  // namespace trireme
