// SPDX-License-Identifier: Apache-2.0
// Charts as SVG. Colours come from the page's style: classes c0, c1, ... for series, "ideal",
// "axis", "grid".
#pragma once

#include <span>
#include <string>
#include <vector>

namespace trireme::scale {

struct ChartPoint {
  double x = 0, y = 0;
  double min = 0, max = 0;  // whiskers, where they differ
  std::string label{};      // shown when pointed at
};

struct Series {
  std::string name;
  std::vector<ChartPoint> points{};  // by x
  bool ideal = false;                // a dashed line without markers
};

struct ChartOptions {
  std::string title, x_title, y_title;
  bool logarithmic = false;  // both axes; otherwise x alone, and y begins at 0
  double y_max = 0;          // at least so far
};

// x is spaced by powers of two.
[[nodiscard]] std::string line_chart(const ChartOptions& options, std::span<const Series> series);

struct Bar {
  std::string name;
  std::vector<double> parts;  // by class; below 0 they hang from the axis
};

// Stacked bars side by side; `parts` names the classes.
[[nodiscard]] std::string bar_chart(const ChartOptions& options, std::span<const std::string> parts,
                                    std::span<const Bar> bars);

// & < > " as HTML wants them.
[[nodiscard]] std::string escaped(std::string_view text);

}  // namespace trireme::scale
