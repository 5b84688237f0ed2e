// SPDX-License-Identifier: Apache-2.0
#include "launch/study/ablate/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launch/observe/report/table.h"
#include "launch/study/study_directory.h"
#include "runtime/telemetry/environment.h"

namespace trireme::ablate {
namespace {

using ordered_json = nlohmann::ordered_json;

constexpr std::array<const char*, 3> axis_names = {"steps", "items", "seconds"};

ordered_json describe(const std::optional<studies::Interval>& interval) {
  if (!interval) return nullptr;
  return {interval->low, interval->high};
}

ordered_json describe(const Study& study, const Row& row) {
  ordered_json text{{"variant", study.variants[row.variant].name},
                    {"settings", study.variants[row.variant].settings},
                    {"state", name_of(row.state)},
                    {"seeds", row.seeds}};
  if (row.seeds == 0) return text;
  text["metric"] = row.metric;
  text["interval"] = describe(row.interval);
  text["steps"] = row.steps;
  text[study.traits.item_name] = row.items;
  text["seconds"] = row.seconds;
  text["rank_hours"] = row.rank_hours;
  if (study.price_per_rank_hour > 0) text["price"] = row.rank_hours * study.price_per_rank_hour;
  for (std::size_t axis = 0; axis < axis_names.size(); ++axis) {
    const auto& difference = row.differences[axis];
    if (!difference) continue;
    text["differences"][axis_names[axis]] = {
        {"mean", difference->mean},
        {"interval", describe(difference->interval)},
        {"p", difference->p ? ordered_json(*difference->p) : ordered_json(nullptr)},
        {"verdict", difference->verdict()},
        {"by_seed", difference->by_seed}};
  }
  return text;
}

ordered_json describe(const Study& study, const Cell& cell, const Cell& base) {
  ordered_json legs = ordered_json::array();
  std::int64_t shared = 0;
  for (const Leg& leg : cell.legs) {
    legs.push_back({{"from", leg.from},
                    {"to", leg.to},
                    {"shared", leg.shared},
                    {"directory", leg.directory},
                    {"log", leg.log},
                    {"command", leg.command}});
    if (leg.shared) shared = std::max(shared, std::min(leg.to, cell.steps));
  }
  const Curve::Place end = cell.curve.end();
  ordered_json text{{"variant", study.variants[cell.variant].name},
                    {"settings", study.variants[cell.variant].settings},
                    {"seed", study.seeds[cell.seed]},
                    {"state", name_of(cell.state)},
                    {"steps", cell.steps},
                    {study.traits.item_name, end.items},
                    {"seconds", end.seconds},
                    {"rank_hours", end.seconds * study.ranks / seconds_per_hour},
                    {"shared_steps", shared},
                    {"legs", legs}};
  if (!cell.legs.empty()) {
    text["directory"] = cell.legs.back().directory;
    text["log"] = cell.legs.back().log;
  }
  if (cell.state == CellState::failed) {
    text["code"] = cell.code;
    text["error"] = cell.error;
  }
  const auto value = metric_at(study, cell.curve, Axis::steps, end.steps);
  if (value && std::isfinite(*value)) text["metric"] = *value;
  const double steps = std::min(end.steps, base.curve.end().steps);
  const auto own = metric_at(study, cell.curve, Axis::steps, steps);
  const auto against = metric_at(study, base.curve, Axis::steps, steps);
  if (own && against && cell.variant != 0) text["difference_at_equal_steps"] = *own - *against;
  return text;
}

// Mean, 95 % interval, p and verdict.
void add_difference(std::vector<report::Column>& columns, const std::string& title,
                    const std::string& axis) {
  const std::string at = "/differences/" + axis + "/";
  columns.insert(
      columns.end(),
      {report::number(title, at + "mean", "{:+.4f}"),
       report::words("95 %", at + "interval/0 " + at + "interval/1", "{:+.4f}", 1, ".."),
       report::number("p", at + "p", "{:.3f}"), report::words("verdict", at + "verdict")});
}

// Equal items are equal steps if all variants have the same batches.
bool items_are_steps(std::span<const Row> rows) {
  return std::ranges::all_of(rows, [](const Row& row) {
    const auto &steps = row.differences[static_cast<std::size_t>(Axis::steps)],
               &items = row.differences[static_cast<std::size_t>(Axis::items)];
    return steps.has_value() == items.has_value() && (!steps || steps->by_seed == items->by_seed);
  });
}

ordered_json describe_rows(const Study& study, std::span<const Row> rows) {
  ordered_json described = ordered_json::array();
  for (const Row& row : rows)
    described.push_back(describe(study, row));
  return described;
}

ordered_json describe_cells(const Study& study, const AblationResult& result) {
  ordered_json cells = ordered_json::array();
  for (const Cell& cell : result.cells)
    cells.push_back(describe(study, cell, result.cells[cell.seed]));
  return cells;
}

}  // namespace

std::vector<std::string> definitions(const Study& study, const AblationResult& result) {
  std::int64_t alone = 0;
  for (const Cell& cell : result.cells)
    alone += cell.steps;
  std::vector<std::string> text = {
      "variant: the base's config with the keys in its name; cell: one variant with one seed; "
      "done: all its steps, stopped: earlier, by successive halving",
      fmt::format("metric: {}; lower is better", metric_text(study)),
      "difference: variant minus base of the same seed, averaged over seeds, with the 95 % "
      "interval of Student's t over these differences",
      fmt::format(
          "p: probability of a mean difference as large without any effect (paired t test), "
          "corrected for {} variant{} (Holm): of 100 studies without effects at most 5 find one; "
          "better, worse: p is at most 0.05; no p for a stopped variant, or if a seed has no value",
          study.variants.size() - 1, study.variants.size() > 2 ? "s" : ""),
      "order: seed by seed, random within a seed",
      fmt::format("at equal steps, {0} or time: both cells of a seed up to the smaller amount of "
                  "the two; cost is time times {1} rank{2}, so equal cost is equal time",
                  study.traits.item_name, study.ranks, study.ranks > 1 ? "s" : ""),
      "between two evaluations the validation loss is interpolated linearly",
      "time: of all steps and evaluations, shared ones included; without start, checkpoints and "
      "waits",
      fmt::format("{} steps were trained for {} steps of cells: prefixes that variants share are "
                  "trained once; {:.3f} rank hours in all",
                  result.trained_steps, alone,
                  result.trained_seconds * study.ranks / seconds_per_hour)};
  if (study.fork_step > 0)
    text.push_back(
        fmt::format("fork_step: up to step {} every cell is the base's run of its seed; its own "
                    "values apply from step {} on",
                    study.fork_step, study.fork_step + 1));
  text.insert(text.end(), result.decisions.begin(), result.decisions.end());
  return text;
}

report::Table table_of(const Study& study, std::span<const Row> rows, bool for_page) {
  using report::number, report::words;
  const std::string& items = study.traits.item_name;
  std::vector<report::Column> columns{
      {"variant", report::Column::Kind::name, "/variant"},
      words("state", "/state"),
      number("seeds", "/seeds", fmt::format("{{:.0f}}/{}", study.seeds.size())),
      number("metric", "/metric", "{:.4f}")};
  const bool by_items = for_page && !items_are_steps(rows);
  add_difference(columns,
                 for_page && !by_items ? "difference at equal steps and " + items
                                       : "difference at equal steps",
                 "steps");
  if (by_items) add_difference(columns, "at equal " + items, "items");
  if (for_page) {
    add_difference(columns, "at equal time and cost", "seconds");
    columns.push_back(number(items, "/" + items, "{:.0f}"));
    columns.push_back(number("rank hours", "/rank_hours", "{:.4f}"));
    if (study.price_per_rank_hour > 0) columns.push_back(number("price", "/price", "{:.4g}"));
  } else {
    columns.push_back(number("at time", "/differences/seconds/mean", "{:+.4f}"));
  }
  columns.push_back(number("steps", "/steps", "{:.0f}"));
  columns.push_back(number("time, s", "/seconds", "{:.4g}"));
  return report::table_of(describe_rows(study, rows), columns);
}

std::string text_report(const Study& study, const AblationResult& result,
                        std::span<const Row> rows) {
  std::string text = table_of(study, rows, /*for_page=*/false).text();
  for (const std::string& line : definitions(study, result))
    text += line + "\n";
  for (const Cell& cell : result.cells) {
    if (cell.state != CellState::failed) continue;
    text += fmt::format("failed: {}, seed {}: code {}: {}; its log: {}\n",
                        study.variants[cell.variant].name, study.seeds[cell.seed], cell.code,
                        cell.error, cell.legs.empty() ? "none" : cell.legs.back().log);
  }
  return text;
}

std::string csv_report(const Study& study, const AblationResult& result) {
  const std::string columns = fmt::format(
      "variant settings seed state {}=metric difference_at_equal_steps steps {} seconds rank_hours "
      "shared_steps directory log",
      name_of(study.metric), study.traits.item_name);
  return report::table_of(describe_cells(study, result), report::keys_as_columns(columns)).csv();
}

std::string json_report(const Study& study, const AblationResult& result,
                        std::span<const Row> rows) {
  return studies::json_file({{"version", version_text()},
                             {"study", study.file},
                             {"config", study.config},
                             {"launcher", study.launcher},
                             {"ranks", study.ranks},
                             {"seeds", study.seeds},
                             {"metric", name_of(study.metric)},
                             {"definitions", definitions(study, result)},
                             {"interrupted", result.interrupted},
                             {"trained_steps", result.trained_steps},
                             {"trained_seconds", result.trained_seconds},
                             {"settings", studies::settings_json(study.identity)},
                             {"variants", describe_rows(study, rows)},
                             {"cells", describe_cells(study, result)}});
}

}  // namespace trireme::ablate
