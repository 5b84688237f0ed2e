// SPDX-License-Identifier: Apache-2.0
// The content of a screen of runs, as lines of limited width.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "launch/observe/top/run_view.h"

namespace trireme::top {

struct FrameOptions {
  std::size_t columns = 80;
  std::size_t rows = 0;  // 0: unlimited
  bool utf8 = true;
  bool highlight = false;  // show the chosen run in reverse video
  std::string keys{};      // the last line of a screen with keys
};

// Everything known of one run.
[[nodiscard]] std::vector<std::string> run_lines(const RunView& view, const FrameOptions& options);
// A header and a line per run; if there are more than `rows`, those around `chosen`.
[[nodiscard]] std::vector<std::string> table_lines(std::span<const RunView* const> views,
                                                   std::size_t chosen, std::size_t rows,
                                                   const FrameOptions& options);
// A single run; or for several the table, and below it the chosen one as far as rows allow, or all
// of them without a limit.
[[nodiscard]] std::vector<std::string> frame(std::span<const RunView* const> views,
                                             std::size_t chosen, const FrameOptions& options);

}  // namespace trireme::top
