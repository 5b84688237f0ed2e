// SPDX-License-Identifier: Apache-2.0
// What a person asks of a run first, for a terminal or a script.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launch/observe/report/run_data.h"

namespace trireme::report {

// What the figures of a run come to; NaN where the run does not tell.
struct Figures {
  double items_per_second = 0;         // of the steps' own time
  double recent_items_per_second = 0;  // of the last twentieth of the steps
  double step_ms = 0, recent_step_ms = 0;
  double mfu = 0;  // 0..1
  double remaining_seconds = 0;
  double goodput = 0;  // 0..1: new steps' time of the time from first to last line
};
[[nodiscard]] Figures figures_of(const RunData& run);

// What is known of a run, a line each.
struct Fact {
  std::string name, text;
};
[[nodiscard]] std::vector<Fact> facts_of(const RunData& run);
// "verdict: ..."; empty where no step was reported.
[[nodiscard]] std::string verdict_of(const RunData& run);

// All of that, and the remarks.
[[nodiscard]] std::string text_report(const RunData& run);
// Beside each other, first run first.
[[nodiscard]] std::string text_comparison(std::span<const RunData> runs);

// The same figures as JSON: {"version", "runs": [{"name", "state", "loss", ...}]}; what is not
// known is null.
[[nodiscard]] std::string json_report(std::span<const RunData> runs);

// "4.5 MiB".
[[nodiscard]] std::string bytes_text(double bytes);

}  // namespace trireme::report
