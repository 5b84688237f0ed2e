// SPDX-License-Identifier: Apache-2.0
// What a page of runs begins with, as HTML: what went wrong, and three large numbers.
#pragma once

#include <span>
#include <string>

#include "launch/observe/report/run_data.h"

namespace trireme::report {

// Runs that failed, were killed or stand still; losses that were none; checkpoints that could not
// be written. Empty where all is well.
[[nodiscard]] std::string failures_html(std::span<const RunData> runs);

// Loss, throughput, and how much of the time was computing; empty of a run without a step.
[[nodiscard]] std::string headline(const RunData& run);
// Of several how many are well, the least loss and the most items per second. A validation loss is
// compared with none of training, and tokens are with no images.
[[nodiscard]] std::string headline(std::span<const RunData> runs);

}  // namespace trireme::report
