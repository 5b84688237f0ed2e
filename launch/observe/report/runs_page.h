// SPDX-License-Identifier: Apache-2.0
// report.html of one run, or of several side by side.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "launch/observe/report/run_data.h"

namespace trireme::report {

// The unit of an x axis, with the names of `--align`.
enum class Alignment : std::uint8_t { step, items, time };

// At least one run. Some hundred kilobytes per run, whatever its length.
[[nodiscard]] std::string runs_page(std::span<const RunData> runs,
                                    Alignment alignment = Alignment::step);

// The numbers of a run for the page's scripts (page/run.js).
[[nodiscard]] nlohmann::ordered_json page_data(const RunData& run);

// {"count", "first": [{"step", "text"}, ...]}
[[nodiscard]] nlohmann::ordered_json json_events(const Few<Event>& events);

// The head of a page of runs, as HTML: failures, and three large numbers.

// Failed, killed or stalled runs; non-finite losses; failed checkpoints. Empty if all is well.
[[nodiscard]] std::string failures_html(std::span<const RunData> runs);

// Loss, throughput, and the share of computing time; empty for a run without a step.
[[nodiscard]] std::string headline(const RunData& run);
// For several runs: how many are well, the lowest loss and the most items per second. Validation
// losses are not compared with training losses, nor tokens with images.
[[nodiscard]] std::string headline(std::span<const RunData> runs);

}  // namespace trireme::report
