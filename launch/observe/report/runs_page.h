// SPDX-License-Identifier: Apache-2.0
// report.html of one run, or of several side by side.
#pragma once

#include <span>
#include <string>

#include "launch/observe/report/run_data.h"

namespace trireme::report {

// The unit of an x axis, with the names of `--align`.
enum class Alignment : std::uint8_t { step, items, time };

// At least one run. Some hundred kilobytes per run, whatever its length.
[[nodiscard]] std::string runs_page(std::span<const RunData> runs,
                                    Alignment alignment = Alignment::step);

// The numbers of a run for the page's scripts (page/run.js): a JSON object.
[[nodiscard]] std::string page_data(const RunData& run);

}  // namespace trireme::report
