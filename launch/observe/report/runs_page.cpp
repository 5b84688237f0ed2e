// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/report/runs_page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

#include "launch/observe/report/differences.h"
#include "launch/observe/report/html.h"
#include "launch/observe/report/text_report.h"
#include "runtime/telemetry/console.h"
#include "runtime/telemetry/environment.h"

namespace trireme::report {
namespace {

using nlohmann::ordered_json;
using Kind = Column::Kind;

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
  return "<div class=\"notes\"><h3>What is missing or was left out</h3>\n" +
         list_html(run.remarks) + "</div>\n";
}

std::string events_table(const MetricsHistory& all) {
  Table table({{"step"}, {"what", Kind::text}, {"details", Kind::long_text}});
  const auto add = [&](std::int64_t step, const char* what, const std::string& text) {
    table.add({fmt::format("{}", step), what, text});
  };
  for (const std::int64_t step : all.non_finite.first)
    add(step, "not finite", "loss or gradient norm is NaN or infinite");
  for (const auto& [what, events] : {std::pair("warning", &all.warnings),
                                     {"batch skipped", &all.skipped},
                                     {"checkpoint failed", &all.failed_saves},
                                     {"steps went back", &all.went_back}})
    for (const Event& event : events->first)
      add(event.step, what, event.text);
  for (const Pause& pause : all.pauses.first)
    add(pause.step, "pause",
        fmt::format("{} until {}", format_duration(pause.seconds), utc_text(pause.ended)));
  return table.folded_html("Events");
}

std::string starts_table(const RankHistory& ranks, std::string_view inner) {
  Table table(
      {{"time", Kind::text}, {"steps done"}, {"steps lost"}, {"ranks"}, {"layout", Kind::text}});
  for (const RunStart& start : ranks.starts) {
    const RankMesh mesh = mesh_of(start.facts);
    const int context = std::max(start.facts.context, 1);
    table.add({utc_text(seconds_since_1970(start.time)), fmt::format("{}", start.step),
               fmt::format("{}", start.lost.steps), fmt::format("{}", start.facts.ranks),
               fmt::format("data {}{}, pipeline {}, {} {}", mesh.data / context,
                           context > 1 ? fmt::format(", context {}", context) : "", mesh.pipeline,
                           inner, mesh.tensor)});
  }
  return table.folded_html("Starts");
}

std::string checkpoints_table(const RunData& run) {
  Table table({{"name", Kind::text}, {"size"}, {"written", Kind::text}});
  for (const runs::StoredCheckpoint& one : run.checkpoints)
    table.add({one.name, bytes_text(runs::stored_bytes(one)),
               one.whole ? utc_text(one.written) : "incomplete"});
  return table.folded_html("Checkpoints");
}

// The main statement, and the rest.
std::pair<std::string, std::string> bottleneck_parts(const RunData& run) {
  constexpr std::string_view mark = "bottleneck: ";
  const std::string text = bottleneck_of(run);
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
  const auto [bottleneck, details] = bottleneck_parts(run);
  return failures_html({&run, 1}) + headline(run) + bottleneck_html(bottleneck, details) +
         time_bar(run) + facts_list(run) + remarks_list(run) + choice +
         fmt::format("<div id=\"run-{}\"></div>\n", index) + events_table(run.metrics) +
         loads_table(run.metrics)
             .folded_html(fmt::format("Load of experts at step {}", run.metrics.loads_step)) +
         starts_table(run.ranks, inner_axis(run.facts.cuts_samples)) + checkpoints_table(run) +
         folded_text("Configuration (config.yaml)", run.config) +
         folded_text("Environment (environment.json)", run.environment);
}

std::string axis_choice(Alignment alignment) {
  constexpr std::pair<std::string_view, std::string_view> choices[] = {
      {"step", "steps"}, {"items", "tokens or images seen"}, {"time", "running time"}};
  return axis_choice_html("Charts by", choices, choices[static_cast<std::size_t>(alignment)].first);
}

std::string comparison(std::span<const RunData> runs) {
  std::string bottlenecks;
  for (const RunData& run : runs)
    if (const std::string first = bottleneck_parts(run).first; !first.empty())
      bottlenecks += fmt::format("<li><b>{}</b> {}</li>\n", escaped(run.name), escaped(first));
  return comparison_of(runs).html("Runs") +
         (bottlenecks.empty() ? "" : "<ul class=\"bottlenecks\">\n" + bottlenecks + "</ul>\n");
}

std::string differences_tables(std::span<const RunData> runs) {
  std::string tables;
  for (const SettingGroup& group : differing_settings(runs)) {
    std::vector<Column> columns{{"setting", Kind::name}};
    for (const std::size_t run : group.runs)
      columns.push_back({runs[run].name, Kind::text});
    Table table(columns);
    for (const SettingDifference& one : group.differences) {
      std::vector<std::string> cells{one.key};
      cells.insert(cells.end(), one.values.begin(), one.values.end());
      table.add(std::move(cells));
    }
    tables += table.folded_html(group.families.empty()
                                    ? "Settings that differ"
                                    : fmt::format("Settings of {} alone", group.families));
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
  std::string body;
  ordered_json data{{"kind", "runs"}, {"runs", ordered_json::array()}};
  for (const RunData& run : runs)
    data["runs"].push_back(page_data(run));
  std::string title = runs.front().name;
  if (runs.size() == 1) {
    body += run_section(runs.front(), 0, axis_choice(alignment));
  } else {
    title = fmt::format("{} runs compared", runs.size());
    body += failures_html(runs) + headline(runs) + comparison(runs) + differences_tables(runs) +
            axis_choice(alignment) + "<div id=\"comparison\"></div>\n";
    for (std::size_t i = 0; i < runs.size(); ++i)
      body += folded(runs[i].name, run_section(runs[i], i, ""));
  }
  return html_page(title, body + made_by(), data);
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
  std::vector<Failure> all;
  for (const RunData& run : runs)
    for (const std::string& failure : failures_of(run))
      all.push_back({runs.size() > 1 ? run.name : "", failure});
  return failures_html(all);
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
    numbers.back().meaning = fmt::format("lowest loss, {}: {}", numbers.back().meaning, best->name);
  }
  if (fastest != nullptr)
    numbers.push_back(
        {format_quantity(rate(*fastest)),
         fmt::format("{} per second, highest: {}", fastest->metrics.items, fastest->name)});
  return headline_html(numbers);
}

}  // namespace trireme::report
