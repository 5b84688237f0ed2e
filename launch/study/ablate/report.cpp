// SPDX-License-Identifier: Apache-2.0
#include "launch/study/ablate/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/telemetry/environment.h"

namespace trireme::ablate {
namespace {

using ordered_json = nlohmann::ordered_json;

constexpr std::array<const char*, 3> axis_names = {"steps", "items", "seconds"};

std::string interval_text(const std::optional<scale::Interval>& interval, bool signs) {
  if (!interval) return "";
  return signs ? fmt::format("{:+.4f}..{:+.4f}", interval->low, interval->high)
               : fmt::format("{:.4f}..{:.4f}", interval->low, interval->high);
}

ordered_json describe(const std::optional<scale::Interval>& interval) {
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

ordered_json describe(const Study& study, const Cell& cell) {
  ordered_json legs = ordered_json::array();
  for (const Leg& leg : cell.legs)
    legs.push_back({{"from", leg.from},
                    {"to", leg.to},
                    {"shared", leg.shared},
                    {"directory", leg.directory},
                    {"log", leg.log},
                    {"command", leg.command}});
  ordered_json text{{"variant", study.variants[cell.variant].name},
                    {"seed", study.seeds[cell.seed]},
                    {"state", name_of(cell.state)},
                    {"steps", cell.steps},
                    {"legs", legs}};
  if (cell.state == CellState::failed) {
    text["code"] = cell.code;
    text["error"] = cell.error;
  }
  const auto value = metric_at(study, cell.curve, Axis::steps, cell.curve.end().steps);
  if (value && std::isfinite(*value)) text["metric"] = *value;
  return text;
}

// In quotes where it has what parts cells.
std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text)
    quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + "\"";
}

std::string number(std::optional<double> value) {
  return value && std::isfinite(*value) ? fmt::format("{}", *value) : "";
}

std::string row_text(const Study& study, const Row& row, int width) {
  std::string text = fmt::format("{:<{}} {:>7} {:>5}/{}", study.variants[row.variant].name, width,
                                 name_of(row.state), row.seeds, study.seeds.size());
  if (row.seeds == 0) return text + "  no value\n";
  text += fmt::format(" {:>9.0f} {:>9.4f}", row.steps, row.metric);
  const auto& difference = row.differences.front();
  if (difference) {
    text += fmt::format(" {:>+9.4f}  {:<18} {:>6} {:<7}", difference->mean,
                        interval_text(difference->interval, true),
                        difference->p ? fmt::format("{:.3f}", *difference->p) : "",
                        difference->verdict());
    const auto& by_time = row.differences[static_cast<std::size_t>(Axis::seconds)];
    text += by_time ? fmt::format("{:>+9.4f}", by_time->mean) : fmt::format("{:>9}", "");
  } else {
    text += fmt::format(" {:>9}  {:<18} {:>6} {:<7}{:>9}", "", row.variant == 0 ? "base" : "", "",
                        "", "");
  }
  return text + fmt::format(" {:>9.4g}\n", row.seconds);
}

}  // namespace

std::vector<std::string> definitions(const Study& study, const AblationResult& result) {
  std::int64_t alone = 0;
  for (const Cell& cell : result.cells)
    alone += cell.steps;
  std::vector<std::string> text = {
      "variant: the base's config with the keys that its name has; cell: one variant with one "
      "seed; "
      "done: all its steps, stopped: before, by successive halving",
      fmt::format("metric: {}; less is better", metric_text(study)),
      "difference: variant less base of the same seed, averaged over seeds, with the 95 % interval "
      "of Student's t over these differences, of each by itself",
      fmt::format(
          "p: how probable a mean difference as large is without any effect (paired t test), "
          "corrected for {} variant{} (Holm): of 100 studies without effects at most 5 find one; "
          "better, worse: p is at most 0.05; none of a variant that was stopped, or a seed of "
          "which "
          "has no value",
          study.variants.size() - 1, study.variants.size() > 2 ? "s" : ""),
      "order: seed by seed, within a seed drawn at random",
      fmt::format(
          "at equal steps, {0} or time: both cells of a seed up to the least that either has "
          "come to; cost is time times {1} rank{2}, so equal cost is equal time",
          study.traits.item_name, study.ranks, study.ranks > 1 ? "s" : ""),
      "between two evaluations the validation loss is on the line between them",
      "time: of steps and evaluations since the first step, shared ones included; without start, "
      "checkpoints and waits",
      fmt::format("{} steps were trained for {} steps of cells: prefixes that variants share are "
                  "trained once; {:.3f} rank hours in all",
                  result.trained_steps, alone,
                  result.trained_seconds * study.ranks / seconds_per_hour)};
  if (study.fork_step > 0)
    text.push_back(
        fmt::format("fork_step: up to step {} every cell is the base's run of its seed; its own "
                    "values act from "
                    "step {} on",
                    study.fork_step, study.fork_step + 1));
  text.insert(text.end(), result.decisions.begin(), result.decisions.end());
  return text;
}

std::string text_report(const Study& study, const AblationResult& result,
                        std::span<const Row> rows) {
  std::size_t width = 7;
  for (const Variant& variant : study.variants)
    width = std::max(width, variant.name.size());
  const int column = static_cast<int>(std::min<std::size_t>(width, 60));
  std::string text = fmt::format(
      "{:<{}} {:>7} {:>7} {:>9} {:>9} {:>9}  {:<18} {:>6} {:<7}{:>9} {:>9}\n", "variant", column,
      "state", "seeds", "steps", "metric", "diff", "95 %", "p", "", "at time", "time, s");
  for (const Row& row : rows)
    text += row_text(study, row, column);
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
  std::string text = fmt::format(
      "variant,settings,seed,state,{},difference_at_equal_steps,steps,{},seconds,rank_hours,"
      "shared_steps,directory,log\n",
      name_of(study.metric), study.traits.item_name);
  for (const Cell& cell : result.cells) {
    const Cell& base = result.cells[cell.seed];
    const Curve::Place end = cell.curve.end();
    const double steps = std::min(end.steps, base.curve.end().steps);
    const auto own = metric_at(study, cell.curve, Axis::steps, steps);
    const auto against = metric_at(study, base.curve, Axis::steps, steps);
    std::int64_t shared = 0;
    for (const Leg& leg : cell.legs)
      if (leg.shared) shared = std::max(shared, std::min(leg.to, cell.steps));
    const bool pair = own && against && cell.variant != 0;
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_cell(study.variants[cell.variant].name),
        csv_cell(fmt::format("{}", fmt::join(study.variants[cell.variant].settings, " "))),
        study.seeds[cell.seed], name_of(cell.state),
        number(metric_at(study, cell.curve, Axis::steps, end.steps)),
        number(pair ? std::optional(*own - *against) : std::nullopt), cell.steps, end.items,
        end.seconds, end.seconds * study.ranks / seconds_per_hour, shared,
        csv_cell(cell.legs.empty() ? "" : cell.legs.back().directory),
        csv_cell(cell.legs.empty() ? "" : cell.legs.back().log));
  }
  return text;
}

std::string json_report(const Study& study, const AblationResult& result,
                        std::span<const Row> rows) {
  ordered_json settings = ordered_json::object();
  for (const auto& [key, value] : study.identity)
    settings[key] = value;
  ordered_json described = ordered_json::array(), cells = ordered_json::array();
  for (const Row& row : rows)
    described.push_back(describe(study, row));
  for (const Cell& cell : result.cells)
    cells.push_back(describe(study, cell));
  const ordered_json text{{"version", version_text()},
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
                          {"settings", settings},
                          {"variants", described},
                          {"cells", cells}};
  return text.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace trireme::ablate
