// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "launch/report/html.h"
#include "launch/scale/report.h"
#include "runtime/telemetry/environment.h"

namespace trireme::scale {
namespace {

using report::escaped;

// A table that scrolls by itself where the screen is narrow.
std::string scrolling(std::string_view name, const std::string& table) {
  return fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table>\n{}</table>"
      "</div>\n",
      name, table);
}

std::string table(const Study& study, std::span<const Row> rows) {
  std::string text = fmt::format(
      "<tr><th>ranks</th><th class=\"text\">layout</th>"
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
  text = scrolling("Points", text) + "<p>Losses in ms per step.</p>\n";
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
  return "<h2>Runs without a result</h2>\n" +
         scrolling("Runs without a result",
                   "<tr><th class=\"text\">run</th><th>code</th><th class=\"text\">last words</th>"
                   "</tr>\n" +
                       text);
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
    std::vector<Row> all;
    std::ranges::copy_if(rows, std::back_inserter(all),
                         [&](const Row& row) { return row.point.mode == mode; });
    if (all.empty()) continue;
    body += fmt::format("<h2>{} scaling</h2>\n<p>{}</p>\n<div id=\"study-{}\"></div>\n",
                        mode == Mode::weak ? "Weak" : "Strong",
                        mode == Mode::weak ? "The global batch grows with the ranks."
                                           : "The global batch stays the same.",
                        name_of(mode)) +
            table(study, all);
  }
  body =
      fmt::format(
          "<p>{}; {} steps per run, the first {} not counted; {} runs per point.</p>\n<p>{}</p>\n"
          "<noscript><p class=\"notes\">The charts need JavaScript.</p></noscript>\n",
          escaped(version_text()), study.options.steps, study.options.warmup, study.options.repeats,
          escaped(describe_place(study, rows))) +
      body + failures(rows) + settings(study);
  return report::html_page(
      {.title = "Scaling of " + study.options.config,
       .body = body,
       .data = fmt::format("{{\"kind\":\"study\",\"study\":{}}}",
                           report::json_for_script(json_report(study, rows)))});
}

}  // namespace trireme::scale
