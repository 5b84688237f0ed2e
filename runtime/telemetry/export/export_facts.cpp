// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/export/export_facts.h"

#include <fmt/format.h>

namespace trireme {

std::string grouped_name(const StepMetric& metric, ItemKind kind) {
  return (metric.unit == "ms" ? "time/" : "train/") + name_for(metric.name, kind);
}

std::string grouped_name(const EvaluationMetric& metric, const std::string& source) {
  return fmt::format("evaluation{}{}/{}", source.empty() ? "" : "_", source, metric.name);
}

std::vector<SourceValue> values_of_sources(const EvaluationMetrics& metrics) {
  std::vector<SourceValue> values;
  for (const EvaluationMetrics::Source& source : metrics.sources) {
    const EvaluationMetrics alone{.validation_loss = source.loss, .quality = source.quality};
    for (const EvaluationMetric& metric : evaluation_metrics()) {
      const auto value = metric.value(alone);
      // Sources have no times.
      if (value && metric.unit != "ms") values.push_back({&metric, source.name, *value});
    }
  }
  return values;
}

std::string description_of(const MetricInfo& metric, ItemKind kind) {
  const std::string unit = name_for(metric.unit, kind);
  return unit == "1" ? std::string(metric.meaning) : fmt::format("{} ({})", metric.meaning, unit);
}

}  // namespace trireme
