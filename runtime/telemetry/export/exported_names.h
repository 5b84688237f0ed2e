// SPDX-License-Identifier: Apache-2.0
// The names of the table's metrics in other tools, derived from the names in metrics.jsonl.
#pragma once

#include <string>
#include <vector>

#include "runtime/telemetry/metric_table.h"

namespace trireme {

// For TensorBoard, which shows what comes before the slash as a group (scripts/export_run.py gives
// W&B and MLflow the same names): "train/loss", "time/forward_ms"; of an evaluation
// "evaluation/accuracy", and of one source of its data "evaluation_SOURCE/accuracy".
[[nodiscard]] std::string grouped_name(const StepMetric& metric, ItemKind kind);
[[nodiscard]] std::string grouped_name(const EvaluationMetric& metric,
                                       const std::string& source = "");

// An evaluation's values per source with a validation set, by rows of the same table.
struct SourceValue {
  const EvaluationMetric* metric;
  std::string source;
  double value;
};
[[nodiscard]] std::vector<SourceValue> values_of_sources(const EvaluationMetrics& metrics);

// "meaning (unit)"
[[nodiscard]] std::string description_of(const MetricInfo& metric, ItemKind kind);

}  // namespace trireme
