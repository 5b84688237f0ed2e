// SPDX-License-Identifier: Apache-2.0
#include "launch/scale/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trireme::scale {
namespace {

constexpr double width = 640, height = 320, left = 78, right = 14, top = 14, bottom = 44;
constexpr double plot_width = width - left - right, plot_height = height - top - bottom;
constexpr double legend_line = 18;

// From values to pixels.
struct Axis {
  double low = 0, high = 1, from = 0, to = 1;
  bool logarithmic = false;

  [[nodiscard]] double operator()(double value) const {
    const auto place = [&](double v) { return logarithmic ? std::log2(v) : v; };
    const double range = place(high) - place(low);
    return from + (range > 0 ? (place(value) - place(low)) / range : 0.5) * (to - from);
  }
};

// Steps of 1, 2 or 5 times a power of ten.
double step_of(double range, int max_ticks) {
  const double raw = range / max_ticks, power = std::pow(10, std::floor(std::log10(raw)));
  for (const double times : {1.0, 2.0, 5.0}) {
    if (times * power >= raw) return times * power;
  }
  return 10 * power;
}

std::vector<double> ticks(const Axis& axis) {
  constexpr int max_ticks = 6;
  std::vector<double> all;
  if (axis.logarithmic) {
    for (double power = std::pow(10, std::floor(std::log10(axis.low))); power <= axis.high;
         power *= 10) {
      for (const double value : {power, 2 * power, 5 * power}) {
        if (value >= axis.low && value <= axis.high) all.push_back(value);
      }
    }
    return all;
  }
  const double step = step_of(axis.high - axis.low, max_ticks);
  for (double value = std::ceil(axis.low / step) * step; value <= axis.high + step / 1000;
       value += step)
    all.push_back(std::abs(value) < step / 1000 ? 0 : value);
  return all;
}

std::string number(double value) {
  for (const auto& [size, suffix] : {std::pair(1e9, "G"), {1e6, "M"}, {1e3, "k"}}) {
    if (std::abs(value) >= size) return fmt::format("{:.4g}{}", value / size, suffix);
  }
  return fmt::format("{:.4g}", value);
}

std::string text(double x, double y, std::string_view anchor, std::string_view content,
                 std::string_view more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, escaped(content));
}

std::string line(std::string_view style, double x1, double y1, double x2, double y2) {
  return fmt::format(
      "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", style, x1,
      y1, x2, y2);
}

std::string head(const ChartOptions& options, std::size_t legend_lines) {
  return fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" "
      "xmlns=\"http://www.w3.org/2000/svg\">\n<title>{}</title>\n",
      width, height + legend_line * static_cast<double>(legend_lines), escaped(options.title),
      escaped(options.title));
}

std::string y_axis(const ChartOptions& options, const Axis& y) {
  std::string svg;
  for (const double value : ticks(y)) {
    svg += line("grid", left, y(value), width - right, y(value));
    svg += text(left - 6, y(value) + 4, "end", number(value));
  }
  return svg + text(14, top + plot_height / 2, "middle", options.y_title,
                    fmt::format(" transform=\"rotate(-90 14 {:.1f})\"", top + plot_height / 2));
}

std::string legend(std::size_t index, std::string_view style, std::string_view name) {
  const double y = height + legend_line * (static_cast<double>(index) + 0.5);
  return fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"10\"/>\n",
                     style, left, y - 9) +
         text(left + 18, y, "start", name);
}

std::string draw(const Series& series, std::size_t index, const Axis& x, const Axis& y) {
  const std::string style = series.ideal ? "ideal" : fmt::format("c{}", index);
  std::string path, marks;
  for (const ChartPoint& point : series.points) {
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x(point.x), y(point.y));
    if (series.ideal) continue;
    if (point.max > point.min) {
      marks += line("whisker " + style, x(point.x), y(point.min), x(point.x), y(point.max));
      for (const double end : {point.min, point.max})
        marks += line("whisker " + style, x(point.x) - 4, y(end), x(point.x) + 4, y(end));
    }
    marks += fmt::format(
        "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"><title>{}</title></circle>\n",
        style, x(point.x), y(point.y), escaped(point.label));
  }
  return fmt::format("<polyline class=\"curve {}\" points=\"{}\"/>\n", style, path) + marks;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += letter;
    }
  }
  return out;
}

std::string line_chart(const ChartOptions& options, std::span<const Series> series) {
  Axis x{.low = HUGE_VAL, .high = 0, .from = left, .to = width - right, .logarithmic = true};
  Axis y{.low = HUGE_VAL,
         .high = options.y_max,
         .from = top + plot_height,
         .to = top,
         .logarithmic = options.logarithmic};
  std::vector<double> places;
  for (const Series& one : series) {
    for (const ChartPoint& point : one.points) {
      places.push_back(point.x);
      y.low = std::min({y.low, point.y, point.max > 0 ? point.min : point.y});
      y.high = std::max({y.high, point.y, point.max});
    }
  }
  if (places.empty()) return {};
  std::ranges::sort(places);
  const auto [first, last] = std::ranges::unique(places);
  places.erase(first, last);
  x.low = places.front();
  x.high = places.back();
  constexpr double margin = 1.08;
  y.high *= margin;
  y.low = y.logarithmic ? y.low / margin : 0;
  std::string svg = head(options, series.size()) + y_axis(options, y);
  for (const double place : places)
    svg += text(x(place), top + plot_height + 18, "middle", number(place));
  svg += text(left + plot_width / 2, height - 6, "middle", options.x_title);
  svg += line("axis", left, top + plot_height, width - right, top + plot_height);
  for (std::size_t i = 0; i < series.size(); ++i) {
    svg += draw(series[i], i, x, y);
    svg += legend(i, series[i].ideal ? "ideal" : fmt::format("c{}", i), series[i].name);
  }
  return svg + "</svg>\n";
}

std::string bar_chart(const ChartOptions& options, std::span<const std::string> parts,
                      std::span<const Bar> bars) {
  if (bars.empty()) return {};
  Axis y{.low = 0, .high = options.y_max, .from = top + plot_height, .to = top};
  for (const Bar& bar : bars) {
    double above = 0, below = 0;
    for (const double part : bar.parts)
      (part > 0 ? above : below) += part;
    y.high = std::max(y.high, above);
    y.low = std::min(y.low, below);
  }
  std::string svg = head(options, parts.size()) + y_axis(options, y);
  const double slot = plot_width / static_cast<double>(bars.size());
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const double middle = left + slot * (static_cast<double>(i) + 0.5);
    double above = 0, below = 0;
    for (std::size_t p = 0; p < bars[i].parts.size(); ++p) {
      const double part = bars[i].parts[p];
      double& base = part > 0 ? above : below;
      const double from = y(base), to = y(base + part);
      base += part;
      svg += fmt::format(
          "<rect class=\"c{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\">"
          "<title>{}: {} {:.3g}</title></rect>\n",
          p, middle - 0.3 * slot, std::min(from, to), 0.6 * slot, std::abs(from - to),
          escaped(bars[i].name), escaped(parts[p]), part);
    }
    svg += text(middle, top + plot_height + 18, "middle", bars[i].name);
  }
  svg += line("axis", left, y(0), width - right, y(0));
  svg += text(left + plot_width / 2, height - 6, "middle", options.x_title);
  for (std::size_t p = 0; p < parts.size(); ++p)
    svg += legend(p, fmt::format("c{}", p), parts[p]);
  return svg + "</svg>\n";
}

}  // namespace trireme::scale
