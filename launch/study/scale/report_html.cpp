// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launch/observe/report/html.h"
#include "launch/observe/report/table.h"
#include "launch/study/scale/report.h"
#include "launch/study/study_directory.h"
#include "runtime/telemetry/console.h"
#include "runtime/telemetry/environment.h"

namespace trireme::scale {
namespace {

using nlohmann::ordered_json;
using report::Column;
using report::escaped;
using report::number;
using report::words;

std::string table(const Study& study, const ordered_json& points, bool to_loss) {
  const std::string& items = study.traits.item_name;
  std::vector<Column> columns = {
      number("ranks", "/ranks"),
      words("", "/shares_cores", "*"),
      words("layout", "/layout"),
      number("batch", "/global_batch"),
      number("runs", "/good_runs /runs/#", "{}", 1, "/"),
      number(items + "/s", "/" + items + "_per_second", "{:.0f}"),
      number(to_loss ? "time to the loss, ms" : "step, ms", "/step_seconds", "{:.2f}", 1e3),
      number("efficiency, %", "/efficiency/median", "{:.1f}", 100),
      number("least..most", "/efficiency/least /efficiency/most", "{:.1f}", 100, ".."),
      number("ideal, ms", "/ideal_seconds", "{:.2f}", 1e3),
      number("gap, ms", "/gap_seconds", "{:.2f}", 1e3)};
  for (std::size_t i = 0; i < loss_count; ++i)
    columns.push_back(number(std::string(loss_titles[i]),
                             fmt::format("/loss_seconds/{}", loss_names[i]), "{:.2f}", 1e3));
  return report::table_of(points, columns).html("Points") +
         fmt::format("<p>What is lost to each cause, in ms {}.</p>\n",
                     to_loss ? "up to the loss" : "per step");
}

// Intervals, work and energy of a mode's points.
std::string work_table(const Study& study, const ordered_json& points) {
  const std::string& items = study.traits.item_name;
  const auto per_sample = static_cast<double>(study.traits.items_per_sample());
  const std::string flops = "/flops_per_second_and_rank/";
  const std::vector<Column> columns = {
      number("ranks", "/ranks"),
      words("layout", "/layout"),
      number(items + "/s, 95 %", "/samples_per_second_interval", "{:.0f}", per_sample),
      number("efficiency, %, 95 %", "/efficiency_interval", "{:.1f}", 100),
      number("6 N, GFLOP/s per rank", flops + "six_n", "{:.4g}", 1e-9),
      number("with attention", flops + "model", "{:.4g}", 1e-9),
      number("with recomputation", flops + "hardware", "{:.4g}", 1e-9),
      number("MFU, %", "/mfu", "{:.1f}", 100),
      number("HFU, %", "/hfu", "{:.1f}", 100),
      number("J per 1000 " + items, "/joules_per_" + one_item(study.traits), "{:.3g}", 1e3)};
  return report::table_of(points, columns).html("Intervals, work and energy") +
         fmt::format("<p>{}.</p>\n", escaped(interval_note(study)));
}

std::string extrapolations(const Study& study, const ordered_json& extrapolations) {
  std::string text = "<h2>Beyond the measured points</h2>\n";
  if (study.hardware.empty())
    return text +
           "<p>Needs parallel.hardware: trireme bench machine measures this machine for it.</p>\n";
  const std::vector<Column> columns = {number("ranks", "/ranks"), words("layout", "/layout"),
                                       number("batch", "/global_batch"),
                                       number("step, ms", "/step_seconds", "{:.2f}", 1e3),
                                       number("efficiency, %", "/efficiency", "{:.1f}", 100)};
  for (const ordered_json& one : extrapolations) {
    text += fmt::format(
        "<p>{} scaling: the planner on {}, times {:.3f} (measured / predicted, the median of the "
        "points but the largest).",
        one["mode"].get<std::string>(), escaped(study.hardware), one["correction"].get<double>());
    for (const ordered_json& held : one["held_out"])
      text += fmt::format(" Held out: {} ranks as {}: {:+.1f} %.", held["ranks"].get<int>(),
                          escaped(held["layout"].get<std::string>()),
                          100 * held["error"].get<double>());
    text += " The table is corrected by all points; nothing in it was measured.</p>\n" +
            report::table_of(one["predictions"], columns).html("Predictions");
  }
  return text;
}

// The runs that `wanted` takes, with their names.
ordered_json runs_of(std::span<const Row> rows, bool (*wanted)(const std::optional<RunResult>&)) {
  ordered_json runs = ordered_json::array();
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.runs.size(); ++i) {
      if (!wanted(row.runs[i])) continue;
      ordered_json& run = runs.emplace_back(describe_run(row.runs[i], row.point));
      run["run"] = fmt::format("{}, run {}", row.point.name(), i + 1);
    }
  }
  return runs;
}

// What repeats the study, and shows whether it was the same.
std::string appendix(const Study& study, std::span<const Row> rows) {
  const ordered_json runs = runs_of(rows, [](const auto& run) { return run.has_value(); });
  return report::table_of(runs, {words("run", "/run"),
                                 number("turn", "/turn"),
                                 words("started", "/started"),
                                 words("certificate", "/certificate"),
                                 {"command", Column::Kind::code, "/command"}})
             .folded_html("Runs: order, certificates and commands") +
         report::folded_text("Environment of a run (environment.json)", study.environment);
}

std::string failures(std::span<const Row> rows) {
  const ordered_json runs = runs_of(rows, [](const auto& run) { return !run || run->code != 0; });
  if (runs.empty()) return {};
  return "<h2>Runs without a result</h2>\n" +
         report::table_of(runs, {words("run", "/run"),
                                 words("state", "/state"),
                                 number("code", "/code"),
                                 {"last words", Column::Kind::long_text, "/error"}})
             .html("Runs without a result");
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
      "steps is {} or less, so samples that a larger batch needs more of count as lost, in "
      "compute.",
      study.options.loss_window, study.options.target_loss);
}

// For the largest point of the first mode that has one.
std::string headline(const Study& study, std::span<const Row> rows) {
  const Row* row = nullptr;
  for (const Mode mode : {Mode::weak, Mode::strong, Mode::fixed_loss})
    if (row == nullptr) row = largest_of(rows, mode);
  if (row == nullptr) return {};
  std::size_t well = 0, all = 0;
  for (const Row& each : rows) {
    // Weak and strong scaling share runs.
    if (std::ranges::any_of(rows.first(static_cast<std::size_t>(&each - rows.data())),
                            [&](const Row& before) {
                              return before.point.layout() == each.point.layout() &&
                                     before.point.ranks() == each.point.ranks() &&
                                     before.point.global_batch == each.point.global_batch &&
                                     before.point.settings == each.point.settings;
                            }))
      continue;
    well += static_cast<std::size_t>(each.good);
    all += each.runs.size();
  }
  const std::string interval = studies::interval_text(row->loss->interval, 100, 1);
  return report::headline_html(
      {{{fmt::format("{:.1f} %", 100 * row->loss->efficiency.median),
         fmt::format("efficiency of {} scaling on {} ranks{}{}", name_of(row->point.mode),
                     row->point.ranks(), interval.empty() ? "" : ", 95 %: ", interval)},
        {format_quantity(row->samples_per_second.median *
                         static_cast<double>(study.traits.items_per_sample())),
         fmt::format("{} per second on {} ranks", study.traits.item_name, row->point.ranks())},
        {fmt::format("{} of {}", well, all), "runs succeeded"}}});
}

}  // namespace

std::string html_report(const Study& study, std::span<const Row> rows) {
  const ordered_json all = json_report(study, rows);
  std::string body;
  for (const Mode mode : {Mode::weak, Mode::strong, Mode::fixed_loss}) {
    ordered_json points = ordered_json::array();
    std::ranges::copy_if(all["points"], std::back_inserter(points),
                         [&](const ordered_json& row) { return row["mode"] == name_of(mode); });
    if (points.empty()) continue;
    body += fmt::format("<h2>{} scaling</h2>\n<p>{}</p>\n<div id=\"study-{}\"></div>\n",
                        title_of(mode), meaning_of(study, mode), name_of(mode)) +
            table(study, points, mode == Mode::fixed_loss) + work_table(study, points);
  }
  if (std::ranges::any_of(rows, [](const Row& row) { return row.place.shares_cores(); }))
    body += fmt::format("<p>* {}</p>\n", shared_cores_note);
  const std::vector<std::string> remarks = remarks_on(rows);
  body = failures(rows) + headline(study, rows) +
         report::bottleneck_html(
             fmt::format("{}", fmt::join(bottlenecks_on(study, rows), "; ")),
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
         body + (remarks.empty() ? "" : report::list_html(remarks)) +
         extrapolations(study, all["extrapolations"]) + appendix(study, rows) +
         "<h2>Settings</h2>\n" + studies::settings_html(study.identity);
  return report::html_page("Scaling of " + study.options.config, body,
                           {{"kind", "study"}, {"study", all}});
}

}  // namespace trireme::scale
