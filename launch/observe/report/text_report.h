// SPDX-License-Identifier: Apache-2.0
// The main figures of a run, for a terminal or a script.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launch/observe/report/run_data.h"
#include "launch/observe/report/table.h"

namespace trireme::report {

// The load of experts by layer at its last read; without rows for a model without them.
[[nodiscard]] Table loads_table(const MetricsHistory& all);

// A run's figures; NaN if unknown.
struct Figures {
  double items_per_second = 0;         // by the steps' own time
  double recent_items_per_second = 0;  // over the last twentieth of the steps
  double step_ms = 0, recent_step_ms = 0;
  double mfu = 0;  // 0..1
  double remaining_seconds = 0;
  double goodput = 0;  // 0..1: time of new steps / time from first to last line
};
[[nodiscard]] Figures figures_of(const RunData& run);

// One known fact of a run, one line.
struct Fact {
  std::string name, text;
};
[[nodiscard]] std::vector<Fact> facts_of(const RunData& run);
// "bottleneck: ..."; empty if no step was reported.
[[nodiscard]] std::string bottleneck_of(const RunData& run);

// Everything above, and the remarks.
[[nodiscard]] std::string text_report(const RunData& run);
// Side by side, in order.
[[nodiscard]] Table comparison_of(std::span<const RunData> runs);

// The same figures as JSON: {"version", "runs": [{"name", "state", "loss", ...}]}; unknown values
// are null.
[[nodiscard]] std::string json_report(std::span<const RunData> runs);

// Every metric of a run (runtime/telemetry/metric_table.h): name, unit, kind, meaning.
[[nodiscard]] std::string metrics_text();

// "4.5 MiB".
[[nodiscard]] std::string bytes_text(double bytes);

// The table of metrics (runtime/telemetry/metric_table.h) for a terminal: name, unit, kind,
// meaning.
[[nodiscard]] std::string metrics_text();

}  // namespace trireme::report
