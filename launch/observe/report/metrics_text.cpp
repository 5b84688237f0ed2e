// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/report/text_report.h"

#include <fmt/format.h>

#include "runtime/telemetry/metric_table.h"

namespace trireme::report {
namespace {

std::string metric_row(const MetricInfo& metric) {
  return fmt::format("{:<25}{:<9}{:<9}{}\n", metric.name, metric.unit,
                     metric.kind == MetricKind::counter ? "counter" : "gauge", metric.meaning);
}

}  // namespace

std::string metrics_text() {
  std::string text =
      "Of every step, in metrics.jsonl beside \"step\" and \"timestamp\"; items are tokens or "
      "images:\n";
  for (const StepMetric& metric : step_metrics())
    text += metric_row(metric);
  text += "\nOf every evaluation:\n";
  for (const EvaluationMetric& metric : evaluation_metrics())
    text += metric_row(metric);
  text += "\nOf the run, for Prometheus alone:\n";
  for (const RunMetric& metric : run_metrics())
    text += metric_row(metric);
  return text;
}

}  // namespace trireme::report
