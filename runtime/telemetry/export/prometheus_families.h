// SPDX-License-Identifier: Apache-2.0
// The metrics of the table as Prometheus wants them: names with trireme_ in front, base units
// (seconds), counters that end with _total, one label: run.
#pragma once

#include <prometheus/metric_family.h>

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/telemetry/export/export_facts.h"
#include "runtime/telemetry/metric_table.h"

namespace trireme {

// "trireme_step_seconds" for step_ms, "trireme_tokens_per_second", "trireme_skipped_steps_total".
[[nodiscard]] std::string prometheus_name(const MetricInfo& metric, ItemKind kind);

// The newest values of a run. Safe from several threads.
class PrometheusState {
 public:
  explicit PrometheusState(const ExportFacts& facts);

  void step(const StepMetrics& metrics);
  void evaluation(const EvaluationMetrics& metrics);
  void failed_save();
  void end();

  // In the order of the table, those without a value left out.
  [[nodiscard]] std::vector<prometheus::MetricFamily> families() const;

 private:
  ItemKind items_;
  std::string run_;
  mutable std::mutex mutex_;
  std::optional<StepMetrics> step_;
  std::optional<EvaluationMetrics> evaluation_;
  RunProgress state_;
};

}  // namespace trireme
