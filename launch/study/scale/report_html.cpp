// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "launch/observe/report/html.h"
#include "launch/study/scale/report.h"
#include "runtime/telemetry/console.h"
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
  const bool to_loss = rows.front().point.mode == Mode::fixed_loss;
  std::string text = fmt::format(
      "<tr><th>ranks</th><th class=\"text\">layout</th>"
      "<th>batch</th><th>runs</th><th>{}/s</th><th>{}, ms</th><th>efficiency, %</th>"
      "<th>least..most</th><th>ideal, ms</th><th>gap, ms</th>",
      escaped(study.traits.item_name), to_loss ? "time to the loss" : "step");
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
          1e3 * row.parts[TimePart::period]);
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
  text = scrolling("Points", text) + fmt::format("<p>What is lost to each cause, in ms {}.</p>\n",
                                                 to_loss ? "up to the loss" : "per step");
  if (std::ranges::any_of(rows, [](const Row& row) { return row.place.shares_cores(); }))
    text += fmt::format("<p>* {}</p>\n", shared_cores_note);
  for (const std::string& remark : remarks_on(rows))
    text += fmt::format("<p>{}</p>\n", report::escaped(remark));
  return text;
}

// Intervals, work and energy of a mode's points.
std::string work_table(const Study& study, std::span<const Row> rows) {
  const auto items = static_cast<double>(study.traits.targets_per_sample);
  const auto share = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.1f}", 100 * *value) : std::string("–");
  };
  std::string text = fmt::format(
      "<tr><th>ranks</th><th class=\"text\">layout</th><th>{0}/s, 95 %</th><th>efficiency, %, "
      "95 %</th><th>6 N, GFLOP/s per rank</th><th>with attention</th><th>with recomputation</th>"
      "<th>MFU, %</th><th>HFU, %</th><th>J per 1000 {0}</th></tr>\n",
      escaped(study.traits.item_name));
  for (const Row& row : rows) {
    if (row.good == 0) continue;
    const Utilisation use = utilisation_of(row);
    text += fmt::format(
        "<tr><td>{}</td><td class=\"text\">{}</td><td>{}</td><td>{}</td><td>{:.4g}</td>"
        "<td>{:.4g}</td><td>{:.4g}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        row.point.ranks(), escaped(row.point.layout()), interval_text(row.interval, items, 0),
        interval_text(row.loss ? row.loss->interval : std::nullopt, 100, 1), 1e-9 * use.six_n,
        1e-9 * use.model, 1e-9 * use.hardware, share(use.mfu), share(use.hfu),
        row.joules_per_sample ? fmt::format("{:.3g}", 1e3 * *row.joules_per_sample / items) : "–");
  }
  return scrolling("Intervals, work and energy", text) +
         fmt::format("<p>{}.</p>\n", escaped(interval_note(study)));
}

std::string extrapolations(const Study& study, std::span<const Row> rows) {
  std::string text = "<h2>Beyond the measured points</h2>\n";
  if (study.hardware.empty())
    return text +
           "<p>Needs parallel.hardware: trireme bench machine measures this machine for it.</p>\n";
  for (const Extrapolation& one : extrapolate(study, rows)) {
    text += fmt::format(
        "<p>{} scaling: the planner on {}, times {:.3f} (measured / predicted, the median of the "
        "points but the largest).",
        name_of(one.mode), escaped(study.hardware), one.correction);
    for (const auto& [point, error] : one.held_out)
      text += fmt::format(" Held out: {} ranks as {}: {:+.1f} %.", point.ranks(),
                          escaped(point.layout()), 100 * error);
    text += " The table is corrected by all points; nothing in it was measured.</p>\n";
    std::string table =
        "<tr><th>ranks</th><th class=\"text\">layout</th><th>batch</th><th>step, ms</th>"
        "<th>efficiency, %</th></tr>\n";
    for (const Prediction& each : one.predictions)
      table += fmt::format(
          "<tr><td>{}</td><td class=\"text\">{}</td><td>{}</td><td>{:.2f}</td><td>{:.1f}</td>"
          "</tr>\n",
          each.point.ranks(), escaped(each.point.layout()), each.point.global_batch,
          1e3 * each.seconds, 100 * each.efficiency);
    text += scrolling("Predictions", table);
  }
  return text;
}

// What it takes to do it again, and to tell whether it was the same.
std::string appendix(const Study& study, std::span<const Row> rows) {
  std::string table =
      "<tr><th class=\"text\">run</th><th>turn</th><th class=\"text\">started</th><th "
      "class=\"text\">certificate</th><th class=\"text\">command</th></tr>\n";
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.runs.size(); ++i) {
      const auto& run = row.runs[i];
      if (!run) continue;
      table += fmt::format(
          "<tr><td class=\"text\">{}, run {}</td><td>{}</td><td class=\"text\">{}</td><td "
          "class=\"text\">{}</td><td class=\"text long\"><code>{}</code></td></tr>\n",
          escaped(row.point.name()), i + 1, run->turn, escaped(run->place.started),
          escaped(run->certificate), escaped(run->command_line));
    }
  }
  return "<details><summary>Runs: order, certificates and commands</summary>" +
         scrolling("Runs", table) + "</details>\n" +
         (study.environment.empty()
              ? ""
              : fmt::format("<details><summary>Environment of a run (environment.json)</summary>"
                            "<pre tabindex=\"0\">{}</pre></details>\n",
                            escaped(study.environment)));
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

std::string_view title_of(Mode mode) {
  constexpr std::string_view titles[] = {"Weak", "Strong", "Fixed-loss"};
  return titles[static_cast<std::size_t>(mode)];
}

std::string meaning_of(const Study& study, Mode mode) {
  if (mode == Mode::weak) return "The global batch grows with the ranks.";
  if (mode == Mode::strong) return "The global batch stays the same.";
  return fmt::format(
      "The global batch grows with the ranks; times are those until the mean training loss of {} "
      "steps is {} or less, so what a larger batch needs more samples for is lost, in compute.",
      study.options.loss_window, study.options.target_loss);
}

// The largest point of the first mode that has one.
std::string headline(const Study& study, std::span<const Row> rows) {
  const Row* row = nullptr;
  for (const Mode mode : {Mode::weak, Mode::strong, Mode::fixed_loss})
    if (row == nullptr) row = largest_of(rows, mode);
  if (row == nullptr) return {};
  std::size_t well = 0, all = 0;
  for (const Row& each : rows) {
    well += static_cast<std::size_t>(each.good);
    all += each.runs.size();
  }
  const std::string interval = interval_text(row->loss->interval, 100, 1);
  return report::headline_html(
      {{{fmt::format("{:.1f} %", 100 * row->loss->efficiency.median),
         fmt::format("efficiency of {} scaling on {} ranks{}{}", name_of(row->point.mode),
                     row->point.ranks(), interval.empty() ? "" : ", 95 %: ", interval)},
        {format_quantity(row->samples_per_second.median *
                         static_cast<double>(study.traits.targets_per_sample)),
         fmt::format("{} per second on {} ranks", study.traits.item_name, row->point.ranks())},
        {fmt::format("{} of {}", well, all), "runs ended well"}}});
}

}  // namespace

std::string html_report(const Study& study, std::span<const Row> rows) {
  std::string body;
  for (const Mode mode : {Mode::weak, Mode::strong, Mode::fixed_loss}) {
    std::vector<Row> all;
    std::ranges::copy_if(rows, std::back_inserter(all),
                         [&](const Row& row) { return row.point.mode == mode; });
    if (all.empty()) continue;
    body += fmt::format("<h2>{} scaling</h2>\n<p>{}</p>\n<div id=\"study-{}\"></div>\n",
                        title_of(mode), meaning_of(study, mode), name_of(mode)) +
            table(study, all) + work_table(study, all);
  }
  const std::vector<std::string> remarks = remarks_on(rows);
  body = failures(rows) + headline(study, rows) +
         report::verdict_html(
             fmt::format("{}", fmt::join(verdicts_on(rows), "; ")),
             remarks.empty() ? "" : "Some of these figures are doubtful: see below the tables.") +
         fmt::format(
             "<p>{}; {} steps per run{}; {} runs per point, in {} order.</p>\n<p>{}</p>\n"
             "<noscript><p class=\"notes\">The charts need JavaScript.</p></noscript>\n",
             escaped(version_text()), study.options.steps,
             study.options.mode == "fixed-loss"
                 ? " at most"
                 : fmt::format(", the first {} not counted", study.options.warmup),
             study.options.repeats, study.options.order == "drawn" ? "random" : "the given",
             escaped(describe_place(study, rows))) +
         body + extrapolations(study, rows) + appendix(study, rows) + settings(study);
  return report::html_page(
      {.title = "Scaling of " + study.options.config,
       .body = body,
       .data = fmt::format("{{\"kind\":\"study\",\"study\":{}}}",
                           report::json_for_script(json_report(study, rows)))});
}

}  // namespace trireme::scale
