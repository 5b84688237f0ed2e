// SPDX-License-Identifier: Apache-2.0
// What a screen shows of runs, as lines of at most so many columns.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "launch/observe/top/run_view.h"

namespace trireme::top {

struct FrameOptions {
  std::size_t columns = 80;
  std::size_t rows = 0;  // 0: as many as it takes
  bool utf8 = true;
  bool highlight = false;  // the chosen run in reverse video
  std::string keys{};      // the last line of a screen with keys
};

// All that is known of one run.
[[nodiscard]] std::vector<std::string> run_lines(const RunView& view, const FrameOptions& options);
// A line a run under a head; of more than `rows` lines those around `chosen`.
[[nodiscard]] std::vector<std::string> table_lines(std::span<const RunView* const> views,
                                                   std::size_t chosen, std::size_t rows,
                                                   const FrameOptions& options);
// One run as it is; of several the table, and under it the chosen one as far as rows allow, or all
// where rows are not limited.
[[nodiscard]] std::vector<std::string> frame(std::span<const RunView* const> views,
                                             std::size_t chosen, const FrameOptions& options);

}  // namespace trireme::top
