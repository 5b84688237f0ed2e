// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "launch/scale/report.h"
#include "launch/scale/svg_chart.h"
#include "runtime/telemetry/environment.h"

namespace trireme::scale {
namespace {

// Colours that remain apart for most colour-blind readers (Okabe and Ito, 2008).
constexpr std::string_view style = R"(
:root { color-scheme: light dark; --text: #1c1c1c; --paper: #ffffff; --grid: #d9d9d9; --ideal: #777777;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --c4: #e69f00; --c5: #56b4e9; --c6: #7a6fac; }
@media (prefers-color-scheme: dark) { :root { --text: #e8e8e8; --paper: #16181c; --grid: #3a3d42; --ideal: #9a9a9a;
  --c0: #4aa8e0; --c1: #f08a4b; --c2: #38c79a; --c3: #e09cc2; --c4: #f0b840; --c5: #8fd0f5; --c6: #a79ddb; } }
@media print { :root { color-scheme: light; --text: #000000; --paper: #ffffff; --grid: #cccccc; --ideal: #666666;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --c4: #e69f00; --c5: #56b4e9; --c6: #7a6fac; }
  figure, tr { break-inside: avoid; } * { print-color-adjust: exact; } }
body { color: var(--text); background: var(--paper); font: 15px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
figure { margin: 1.5rem 0; } svg { max-width: 44rem; width: 100%; height: auto; } svg text { fill: var(--text); font: 12px system-ui, sans-serif; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; } .wide { overflow-x: auto; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--grid); text-align: right; white-space: nowrap; }
th.text, td.text { text-align: left; } td.long { white-space: normal; overflow-wrap: anywhere; }
pre { overflow-x: auto; } .grid { stroke: var(--grid); } .axis { stroke: var(--text); } .curve { fill: none; stroke-width: 2; }
polyline.ideal { stroke: var(--ideal); stroke-dasharray: 6 4; } rect.ideal { fill: var(--ideal); } .whisker { stroke-width: 1.5; }
)";

constexpr int colours = 7;

std::string colour_rules() {
  std::string rules;
  for (int i = 0; i < colours; ++i) {
    rules += fmt::format(
        "rect.c{0}, circle.c{0} {{ fill: var(--c{0}); }} line.c{0}, polyline.c{0} {{ stroke: "
        "var(--c{0}); }}\n",
        i);
  }
  return rules;
}

// What a curve has in common.
std::string family(const Point& point) {
  std::vector<std::string> axes;
  if (point.mesh.tensor > 1) axes.push_back(fmt::format("tensor {}", point.mesh.tensor));
  if (point.mesh.pipeline > 1) axes.push_back(fmt::format("pipeline {}", point.mesh.pipeline));
  return axes.empty() ? "data parallel" : fmt::format("{}", fmt::join(axes, ", "));
}

// Short enough to stand below a bar.
std::string bar_name(const Point& point) {
  std::string text = fmt::format("{}", point.ranks());
  if (point.mesh.tensor > 1) text += fmt::format(" t{}", point.mesh.tensor);
  if (point.mesh.pipeline > 1) text += fmt::format(" p{}", point.mesh.pipeline);
  return text;
}

using PointOf = ChartPoint (*)(const Study&, const Row&);

ChartPoint rate_of(const Study& study, const Row& row) {
  const auto items = static_cast<double>(study.traits.targets_per_sample);
  const Spread& rate = row.samples_per_second;
  return {.x = static_cast<double>(row.point.ranks()),
          .y = items * rate.median,
          .min = items * rate.min,
          .max = items * rate.max,
          .label = fmt::format("{}: {:.0f} {}/s", row.point.layout(), items * rate.median,
                               study.traits.item_name)};
}

ChartPoint efficiency_of(const Study&, const Row& row) {
  const Spread& efficiency = row.loss->efficiency;
  return {.x = static_cast<double>(row.point.ranks()),
          .y = 100 * efficiency.median,
          .min = 100 * efficiency.min,
          .max = 100 * efficiency.max,
          .label = fmt::format("{}: {:.1f} %", row.point.layout(), 100 * efficiency.median)};
}

std::vector<Series> curves(const Study& study, std::span<const Row> rows, PointOf point_of) {
  std::vector<Series> series;
  for (const Row& row : rows) {
    const std::string name = family(row.point);
    auto found = std::ranges::find(series, name, &Series::name);
    if (found == series.end()) found = series.insert(series.end(), Series{.name = name});
    found->points.push_back(point_of(study, row));
  }
  return series;
}

Series ideal_of(std::span<const Row> rows, PointOf point_of, const Study& study, bool grows) {
  Series ideal{.name = "ideal", .points = {}, .ideal = true};
  const ChartPoint base = point_of(study, rows.front());
  for (const Row& row : rows) {
    const double times = row.point.ranks() / base.x;
    ideal.points.push_back(
        {.x = static_cast<double>(row.point.ranks()), .y = grows ? base.y * times : 100});
  }
  return ideal;
}

std::string figure(const std::string& chart, std::string_view caption) {
  return fmt::format("<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n", chart, caption);
}

// `rows` are those of one mode that have a loss.
std::string charts(const Study& study, std::span<const Row> rows) {
  const std::string& items = study.traits.item_name;
  auto rates = curves(study, rows, rate_of);
  rates.push_back(ideal_of(rows, rate_of, study, true));
  auto efficiencies = curves(study, rows, efficiency_of);
  efficiencies.push_back(ideal_of(rows, efficiency_of, study, false));
  std::vector<Bar> bars;
  for (const Row& row : rows) {
    Bar bar{.name = bar_name(row.point), .parts = {}};
    for (const double part : row.loss->parts)
      bar.parts.push_back(100 * part / row.parts.period);
    bars.push_back(std::move(bar));
  }
  const std::vector<std::string> parts(loss_titles.begin(), loss_titles.end());
  return figure(line_chart({.title = "Throughput by ranks",
                            .x_title = "ranks",
                            .y_title = items + " per second",
                            .logarithmic = true},
                           rates),
                "Throughput, median of the runs; whiskers reach from the slowest run to the "
                "fastest.") +
         figure(line_chart({.title = "Efficiency by ranks",
                            .x_title = "ranks",
                            .y_title = "efficiency, %",
                            .y_max = 100},
                           efficiencies),
                "Throughput per rank against the first point's.") +
         figure(bar_chart({.title = "Lost efficiency by cause",
                           .x_title = "ranks; t: tensor, p: pipeline",
                           .y_title = "% of the step"},
                          parts, bars),
                "What the efficiency lacks to 100 %, by cause; the parts add up to it. Below the "
                "axis: faster than at the first point.");
}

std::string table(const Study& study, std::span<const Row> rows) {
  std::string text = fmt::format(
      "<div class=\"wide\"><table>\n<tr><th>ranks</th><th class=\"text\">layout</th>"
      "<th>batch</th><th>runs</th><th>{}/s</th><th>step, ms</th><th>efficiency, %</th>"
      "<th>least..most</th><th>ideal, ms</th><th>gap, ms</th>",
      escaped(study.traits.item_name));
  for (const std::string_view title : loss_titles)
    text += fmt::format("<th>{}</th>", title);
  text += "</tr>\n";
  for (const Row& row : rows) {
    text +=
        fmt::format("<tr><td>{}{}</td><td class=\"text\">{}</td><td>{}</td><td>{}/{}</td>",
                    row.point.ranks(), row.place.shares_cores() ? "*" : "",
                    escaped(row.point.layout()), row.point.global_batch, row.good, row.runs.size());
    if (row.good > 0) {
      text += fmt::format(
          "<td>{:.0f}</td><td>{:.2f}</td>",
          row.samples_per_second.median * static_cast<double>(study.traits.targets_per_sample),
          1e3 * row.parts.period);
    }
    if (row.loss) {
      const Row::Loss& loss = *row.loss;
      text += fmt::format("<td>{:.1f}</td><td>{:.1f}..{:.1f}</td><td>{:.2f}</td><td>{:.2f}</td>",
                          100 * loss.efficiency.median, 100 * loss.efficiency.min,
                          100 * loss.efficiency.max, 1e3 * loss.ideal, 1e3 * loss.gap);
      for (const double part : loss.parts)
        text += fmt::format("<td>{:.2f}</td>", 1e3 * part);
    }
    text += "</tr>\n";
  }
  text += "</table></div>\n<p>Losses in ms per step.</p>\n";
  if (std::ranges::any_of(rows, [](const Row& row) { return row.place.shares_cores(); }))
    text += fmt::format("<p>* {}</p>\n", shared_cores_note);
  return text;
}

std::string failures(std::span<const Row> rows) {
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.runs.size(); ++i) {
      const auto& run = row.runs[i];
      if (run && run->code == 0) continue;
      text += fmt::format(
          "<tr><td class=\"text\">{}, run {}</td><td>{}</td><td class=\"text long\">{}</td></tr>\n",
          escaped(row.point.name()), i + 1, run ? fmt::format("{}", run->code) : "",
          run ? escaped(run->error) : "not run");
    }
  }
  if (text.empty()) return {};
  return "<h2>Runs without a result</h2>\n<div class=\"wide\"><table>\n<tr><th class=\"text\">run"
         "</th><th>code</th><th class=\"text\">last words</th></tr>\n" +
         text + "</table></div>\n";
}

std::string settings(const Study& study) {
  std::string text = "<h2>Settings</h2>\n";
  for (const auto& [key, value] : study.identity) {
    text += value.find('\n') == std::string::npos
                ? fmt::format("<p><code>{} {}</code></p>\n", escaped(key), escaped(value))
                : fmt::format("<details><summary>{}</summary><pre>{}</pre></details>\n",
                              escaped(key), escaped(value));
  }
  return text;
}

}  // namespace

std::string html_report(const Study& study, std::span<const Row> rows) {
  std::string body;
  for (const Mode mode : {Mode::weak, Mode::strong}) {
    std::vector<Row> all, known;
    for (const Row& row : rows) {
      if (row.point.mode != mode) continue;
      all.push_back(row);
      if (row.loss) known.push_back(row);
    }
    if (all.empty()) continue;
    body += fmt::format("<h2>{} scaling</h2>\n<p>{}</p>\n", mode == Mode::weak ? "Weak" : "Strong",
                        mode == Mode::weak ? "The global batch grows with the ranks."
                                           : "The global batch stays the same.");
    if (!known.empty()) body += charts(study, known);
    body += table(study, all);
  }
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Scaling of {0}</title>\n<style>{1}{2}</style>\n</head>\n<body>\n"
      "<h1>Scaling of {0}</h1>\n<p>{3}; {4} steps per run, the first {5} not counted; {6} runs per "
      "point.</p>\n<p>{10}</p>\n{7}{8}{9}</body>\n</html>\n",
      escaped(study.options.config), style, colour_rules(), escaped(version_text()),
      study.options.steps, study.options.warmup, study.options.repeats, body, failures(rows),
      settings(study), escaped(describe_place(study, rows)));
}

}  // namespace trireme::scale
