// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/report/runs_page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <vector>

#include "launch/observe/report/differences.h"
#include "launch/observe/report/html.h"
#include "launch/observe/report/text_report.h"
#include "runtime/telemetry/console.h"
#include "runtime/telemetry/environment.h"

namespace trireme::report {
namespace {

std::string utc_text(double seconds) {
  if (!(seconds > 0) || seconds > 1e11) return "";
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

std::string facts_list(const RunData& run) {
  std::string text = "<dl class=\"facts\">\n";
  for (const Fact& fact : facts_of(run)) {
    if (fact.name == "because" && runs::went_wrong(run.standing.status)) continue;  // shown above
    text +=
        fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(fact.name), escaped(fact.text));
  }
  return text + "</dl>\n";
}

std::string remarks_list(const RunData& run) {
  if (run.remarks.empty()) return {};
  std::string text = "<div class=\"notes\"><h3>What is missing or was left out</h3>\n<ul>\n";
  for (const std::string& remark : run.remarks)
    text += fmt::format("<li>{}</li>\n", escaped(remark));
  return text + "</ul></div>\n";
}

std::string wide_table(std::string_view name, const std::string& head, const std::string& rows) {
  if (rows.empty()) return {};
  return fmt::format(
      "<details><summary>{0}</summary><div class=\"scroll\" tabindex=\"0\" role=\"region\" "
      "aria-label=\"{0}\"><table>\n<tr>{1}</tr>\n{2}</table></div></details>\n",
      name, head, rows);
}

std::string events_table(const MetricsHistory& all) {
  std::string rows;
  const auto add = [&](std::int64_t step, std::string_view what, std::string_view text) {
    rows += fmt::format(
        "<tr><td>{}</td><td class=\"text\">{}</td><td class=\"text long\">{}</td>"
        "</tr>\n",
        step, what, escaped(text));
  };
  for (const std::int64_t step : all.non_finite.first)
    add(step, "not finite", "loss or gradient norm is NaN or infinite");
  for (const Event& event : all.warnings.first)
    add(event.step, "warning", event.text);
  for (const Event& event : all.skipped.first)
    add(event.step, "batch skipped", event.text);
  for (const Event& event : all.failed_saves.first)
    add(event.step, "checkpoint failed", event.text);
  for (const Event& event : all.went_back.first)
    add(event.step, "went back", event.text);
  for (const Pause& pause : all.pauses.first)
    add(pause.step, "pause",
        fmt::format("{} until {}", format_duration(pause.seconds), utc_text(pause.ended)));
  return wide_table(
      "Events", "<th>step</th><th class=\"text\">what</th><th class=\"text\">details</th>", rows);
}

std::string starts_table(const RankHistory& ranks) {
  std::string rows;
  for (const RunStart& start : ranks.starts) {
    const RankMesh mesh = mesh_of(start.facts);
    rows += fmt::format(
        "<tr><td class=\"text\">{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"text\">data "
        "{}, "
        "pipeline {}, tensor {}</td></tr>\n",
        utc_text(seconds_since_1970(start.time)), start.step, start.lost.steps, start.facts.ranks,
        mesh.data, mesh.pipeline, mesh.tensor);
  }
  return wide_table(
      "Starts",
      "<th class=\"text\">time</th><th>steps done</th><th>steps lost</th><th>ranks</th>"
      "<th class=\"text\">layout</th>",
      rows);
}

std::string checkpoints_table(const RunData& run) {
  std::string rows;
  for (const runs::StoredCheckpoint& one : run.checkpoints)
    rows +=
        fmt::format("<tr><td class=\"text\">{}</td><td>{}</td><td class=\"text\">{}</td></tr>\n",
                    escaped(one.name), bytes_text(runs::stored_bytes(one)),
                    one.whole ? utc_text(one.written) : "not whole");
  return wide_table("Checkpoints",
                    "<th class=\"text\">name</th><th>size</th><th class=\"text\">written</th>",
                    rows);
}

std::string file_details(std::string_view title, const std::string& text) {
  if (text.empty()) return {};
  return fmt::format("<details><summary>{}</summary><pre tabindex=\"0\">{}</pre></details>\n",
                     title, escaped(text));
}

// The main statement, and the rest.
std::pair<std::string, std::string> verdict_parts(const RunData& run) {
  constexpr std::string_view mark = "verdict: ";
  const std::string text = verdict_of(run);
  const std::size_t at = text.find(mark);
  if (at == std::string::npos) return {};
  const std::size_t end = std::min(text.find('\n', at), text.size());
  return {text.substr(at + mark.size(), end - at - mark.size()),
          text.substr(0, at) + text.substr(std::min(end + 1, text.size()))};
}

// The time split as one bar, in the colours of all charts (page.css).
std::string time_bar(const RunData& run) {
  constexpr double worth_showing = 0.1;  // percent
  std::string parts, keys, label;
  const RunSummary summary = times_of(run);
  const Times seconds = seconds_of(summary);
  for (const TimeRow& row : told_times(time_use::of_run)) {
    std::string colour(row.name);
    std::ranges::replace(colour, ' ', '-');
    const double part = percent(seconds[row.part], summary.wall_seconds);
    if (!(part >= worth_showing)) continue;
    const std::string text = fmt::format("{} {:.1f} %", row.name, part);
    parts +=
        fmt::format("<span style=\"flex-grow:{:.1f};background:var(--{})\"></span>", part, colour);
    keys += fmt::format("<li><i style=\"background:var(--{})\"></i>{}</li>\n", colour, text);
    label += (label.empty() ? "" : ", ") + text;
  }
  if (parts.empty()) return {};
  return fmt::format(
      "<div class=\"shares\" role=\"img\" aria-label=\"Time: {}\">{}</div>\n"
      "<ul class=\"keys\" aria-hidden=\"true\">\n{}</ul>\n",
      label, parts, keys);
}

// A run's section without its title; `choice` is placed above the charts.
std::string run_section(const RunData& run, std::size_t index, const std::string& choice) {
  const auto [verdict, details] = verdict_parts(run);
  return failures_html({&run, 1}) + headline(run) + verdict_html(verdict, details) + time_bar(run) +
         facts_list(run) + remarks_list(run) + choice +
         fmt::format("<div id=\"run-{}\"></div>\n", index) + events_table(run.metrics) +
         starts_table(run.ranks) + checkpoints_table(run) +
         file_details("Configuration (config.yaml)", run.config) +
         file_details("Environment (environment.json)", run.environment);
}

std::string axis_choice(Alignment alignment) {
  constexpr std::pair<Alignment, std::pair<const char*, const char*>> choices[] = {
      {Alignment::step, {"step", "steps"}},
      {Alignment::items, {"items", "tokens or images seen"}},
      {Alignment::time, {"time", "running time"}}};
  std::string options;
  for (const auto& [value, names] : choices)
    options += fmt::format("<option value=\"{}\"{}>{}</option>", names.first,
                           value == alignment ? " selected" : "", names.second);
  return fmt::format(
      "<div class=\"bar\"><label for=\"axis\">Charts by</label><select id=\"axis\" "
      "autocomplete=\"off\">{}</select><span class=\"soft\">Drag over a chart to look closer, "
      "double click or Escape to go back; click a name to hide it.</span></div>\n"
      "<noscript><p class=\"notes\">The charts need JavaScript; everything else is here."
      "</p></noscript>\n",
      options);
}

std::string number_cell(double value, int digits) {
  return std::isfinite(value) ? fmt::format("<td>{:.{}f}</td>", value, digits) : "<td>–</td>";
}

std::string comparison_table(std::span<const RunData> runs) {
  std::string rows, verdicts;
  for (const RunData& run : runs) {
    const Figures figures = figures_of(run);
    const MetricsHistory& all = run.metrics;
    rows += fmt::format(
                "<tr><th scope=\"row\" class=\"text\">{}</th><td class=\"text\">{}</td>"
                "<td>{}</td>",
                escaped(run.name), runs::name_of(run.standing.status), all.last_step) +
            number_cell(all.last_loss.value_or(NAN), 4) +
            number_cell(all.evaluations.empty() ? NAN : all.evaluations.back().loss, 4) +
            number_cell(figures.items_per_second, 0) + number_cell(figures.step_ms, 1) +
            number_cell(100 * figures.mfu, 1) + number_cell(100 * figures.goodput, 1) + "</tr>\n";
    if (const std::string first = verdict_parts(run).first; !first.empty())
      verdicts += fmt::format("<li><b>{}</b> {}</li>\n", escaped(run.name), escaped(first));
  }
  return "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Runs\"><table>\n<tr>"
         "<th class=\"text\">run</th><th class=\"text\">state</th><th>steps</th><th>loss</th>"
         "<th>validation</th><th>items/s</th><th>step, ms</th><th>MFU, %</th><th>goodput, %</th>"
         "</tr>\n" +
         rows + "</table></div>\n" +
         (verdicts.empty() ? "" : "<ul class=\"verdicts\">\n" + verdicts + "</ul>\n");
}

std::string differences_tables(std::span<const RunData> runs) {
  std::string tables;
  for (const SettingGroup& group : differing_settings(runs)) {
    std::string head = "<th class=\"text\">setting</th>", rows;
    for (const std::size_t run : group.runs)
      head += fmt::format("<th class=\"text\">{}</th>", escaped(runs[run].name));
    for (const SettingDifference& one : group.differences) {
      rows += fmt::format("<tr><th scope=\"row\" class=\"text\">{}</th>", escaped(one.key));
      for (const std::string& value : one.values)
        rows += fmt::format("<td class=\"text\">{}</td>", escaped(value));
      rows += "</tr>\n";
    }
    tables += wide_table(group.families.empty()
                             ? "Settings that differ"
                             : fmt::format("Settings of {} alone", escaped(group.families)),
                         head, rows);
  }
  return tables;
}

std::string made_by() {
  const auto now = static_cast<double>(std::time(nullptr));
  return fmt::format("<p class=\"soft\">Made by trireme {} at {}.</p>\n", escaped(version_text()),
                     utc_text(now));
}

}  // namespace

std::string runs_page(std::span<const RunData> runs, Alignment alignment) {
  std::string body, data;
  for (const RunData& run : runs)
    data += (data.empty() ? "" : ",") + page_data(run);
  std::string title = runs.front().name;
  if (runs.size() == 1) {
    body += run_section(runs.front(), 0, axis_choice(alignment));
  } else {
    title = fmt::format("{} runs compared", runs.size());
    body += failures_html(runs) + headline(runs) + comparison_table(runs) +
            differences_tables(runs) + axis_choice(alignment) + "<div id=\"comparison\"></div>\n";
    for (std::size_t i = 0; i < runs.size(); ++i)
      body += fmt::format("<details class=\"run\"><summary>{}</summary>\n{}</details>\n",
                          escaped(runs[i].name), run_section(runs[i], i, ""));
  }
  return html_page({.title = title,
                    .body = body + made_by(),
                    .data = fmt::format("{{\"kind\":\"runs\",\"runs\":[{}]}}", data)});
}

namespace {

// What a reader must know before all numbers; empty of a run that is well.
std::vector<std::string> failures_of(const RunData& run) {
  const MetricsHistory& all = run.metrics;
  std::vector<std::string> failures;
  if (runs::went_wrong(run.standing.status))
    failures.push_back(
        fmt::format("{}: {}", runs::name_of(run.standing.status), run.standing.text));
  if (all.non_finite.count > 0)
    failures.push_back(
        fmt::format("the loss or the gradient norm was NaN or infinite in {} steps, "
                    "first in step {}",
                    all.non_finite.count, all.non_finite.first.front()));
  if (all.failed_saves.count > 0)
    failures.push_back(fmt::format("{} checkpoints could not be written, first at step {}: {}",
                                   all.failed_saves.count, all.failed_saves.first.front().step,
                                   all.failed_saves.first.front().text));
  return failures;
}

// Its validation loss, or without one the training loss.
Headline loss_headline(const RunData& run) {
  const MetricsHistory& all = run.metrics;
  const auto text = [](double loss) {
    return loss < 1000 ? fmt::format("{:.4f}", loss) : format_quantity(loss);
  };
  if (!all.evaluations.empty()) {
    const Evaluation& last = all.evaluations.back();
    return {text(last.loss), fmt::format("validation loss at step {}", last.step)};
  }
  return {all.last_loss ? text(*all.last_loss) : "–",
          fmt::format("training loss at step {}", all.last_step)};
}

}  // namespace

std::string failures_html(std::span<const RunData> runs) {
  std::string text;
  for (const RunData& run : runs) {
    for (const std::string& failure : failures_of(run))
      text += fmt::format("<li>{}{}</li>\n",
                          runs.size() > 1 ? fmt::format("<b>{}</b> ", escaped(run.name)) : "",
                          escaped(failure));
  }
  if (text.empty()) return {};
  return "<div class=\"failure\"><strong>What went wrong</strong><ul>\n" + text + "</ul></div>\n";
}

std::string headline(const RunData& run) {
  if (run.metrics.steps == 0) return {};
  const Figures figures = figures_of(run);
  const RunSummary times = times_of(run);
  const double compute = seconds_of(times)[TimePart::compute];
  return headline_html({{loss_headline(run),
                         {format_quantity(figures.items_per_second),
                          fmt::format("{} per second", run.metrics.items)},
                         {fmt::format("{:.1f} %", percent(compute, times.wall_seconds)),
                          fmt::format("of {} are compute", format_duration(times.wall_seconds))}}});
}

// The best of several; NaN is never better. A validation loss is compared with none of training,
// and tokens are with no images.
std::string headline(std::span<const RunData> runs) {
  const RunData *best = nullptr, *fastest = nullptr;
  std::size_t well = 0;
  const bool validated = std::ranges::any_of(
      runs, [](const RunData& run) { return !run.metrics.evaluations.empty(); });
  const auto loss = [&](const RunData& run) {
    const MetricsHistory& all = run.metrics;
    if (!validated) return all.last_loss.value_or(NAN);
    return all.evaluations.empty() ? NAN : all.evaluations.back().loss;
  };
  const auto rate = [&](const RunData& run) {
    return run.metrics.items == runs.front().metrics.items ? figures_of(run).items_per_second : NAN;
  };
  for (const RunData& run : runs) {
    if (std::isfinite(loss(run)) && (best == nullptr || loss(run) < loss(*best))) best = &run;
    if (std::isfinite(rate(run)) && (fastest == nullptr || rate(run) > rate(*fastest)))
      fastest = &run;
    if (failures_of(run).empty()) ++well;
  }
  std::vector<Headline> numbers{
      {fmt::format("{} of {}", well, runs.size()), "runs without a failure"}};
  if (best != nullptr) {
    numbers.push_back(loss_headline(*best));
    numbers.back().meaning = fmt::format("least loss, {}: {}", numbers.back().meaning, best->name);
  }
  if (fastest != nullptr)
    numbers.push_back(
        {format_quantity(rate(*fastest)),
         fmt::format("{} per second, the most: {}", fastest->metrics.items, fastest->name)});
  return headline_html(numbers);
}

}  // namespace trireme::report
