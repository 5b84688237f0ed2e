// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "launch/observe/report/html.h"
#include "launch/observe/report/runs_page.h"

namespace trireme::report {
namespace {

using nlohmann::ordered_json;

constexpr double no_value = std::numeric_limits<double>::quiet_NaN();

template <typename Value>
ordered_json numbers_by_bucket(const Buckets& buckets, Value&& value) {
  std::vector<double> values;
  for (const Bucket& bucket : buckets.all())
    values.push_back(value(bucket));
  return json_numbers(values);
}

// Charts need positions in ascending order; a clock that was set back, or a repeated step, gives
// others.
ordered_json ascending_places(const Buckets& buckets, std::string_view name) {
  const std::size_t column = buckets.find(name);
  double reached = 0;
  return numbers_by_bucket(buckets, [&](const Bucket& bucket) {
    if (const Cell* const cell = bucket.cell(column)) reached = std::max(reached, cell->last);
    return reached;
  });
}

ordered_json last_steps(const Buckets& buckets) {
  ordered_json steps = ordered_json::array();
  for (const Bucket& bucket : buckets.all())
    steps.push_back(bucket.last);
  return steps;
}

// The mean by bucket; where a bucket has several steps, also the minimum and maximum of series that
// may have spikes.
ordered_json series_of(const MetricsHistory& all) {
  const Buckets& buckets = all.buckets;
  const std::string rate = all.items + "_per_s", seen = all.items + "_seen";
  const std::set<std::string_view> with_range = {"loss", "grad_norm",    "step_ms",     rate,
                                                 "mfu",  "data_wait_ms", between_column};
  const std::set<std::string_view> places = {elapsed_column, seen, "epoch"};
  ordered_json all_series = ordered_json::object();
  for (std::size_t column = 0; column < buckets.columns().size(); ++column) {
    const std::string& name = buckets.columns()[column];
    if (places.contains(name)) continue;
    const auto values = [&](double (*of)(const Cell&)) {
      return numbers_by_bucket(buckets, [&](const Bucket& bucket) {
        const Cell* const cell = bucket.cell(column);
        return cell != nullptr ? of(*cell) : no_value;
      });
    };
    ordered_json& series = all_series[name];
    series["mean"] = values([](const Cell& cell) { return cell.mean(); });
    if (buckets.stride() == 1 || !with_range.contains(name)) continue;
    series["min"] = values([](const Cell& cell) { return cell.min; });
    series["max"] = values([](const Cell& cell) { return cell.max; });
  }
  return all_series;
}

ordered_json evaluations_of(const MetricsHistory& all) {
  std::vector<double> steps, losses, elapsed;
  std::array<std::vector<double>, qualities.size()> measured;
  std::map<std::string, std::vector<double>> sources;  // NaN in an evaluation without the source
  for (std::size_t i = 0; i < all.evaluations.size(); ++i) {
    const Evaluation& one = all.evaluations[i];
    steps.push_back(static_cast<double>(one.step));
    losses.push_back(one.loss);
    for (std::size_t q = 0; q < qualities.size(); ++q)
      measured[q].push_back((one.quality.*qualities[q].value).value_or(no_value));
    elapsed.push_back(one.elapsed);
    for (const auto& [name, loss] : one.sources)
      sources.try_emplace(name, all.evaluations.size(), no_value).first->second[i] = loss;
  }
  ordered_json by_source = ordered_json::object();
  for (const auto& [name, values] : sources)
    by_source[name] = json_numbers(values);
  ordered_json all_evaluations = {{"step", json_numbers(steps)},
                                  {"loss", json_numbers(losses)},
                                  {"elapsed", json_numbers(elapsed)},
                                  {"sources", by_source}};
  for (std::size_t q = 0; q < qualities.size(); ++q)
    all_evaluations[std::string(qualities[q].key)] = json_numbers(measured[q]);
  return all_evaluations;
}

// Milliseconds per step by window and row; null if they are 0 everywhere.
ordered_json heat_map(const RankHistory& ranks, std::vector<float> WindowRows::*member,
                      std::string_view title, std::string_view caption) {
  ordered_json map{{"title", title},
                   {"caption", caption},
                   {"ranks_per_row", ranks.ranks_per_row},
                   {"first", ordered_json::array()},
                   {"last", ordered_json::array()},
                   {"values", ordered_json::array()}};
  double most = 0;
  for (const WindowRows& window : ranks.windows) {
    std::vector<double> rows;
    for (const float sum : window.*member)
      rows.push_back(
          std::round(1e3 * static_cast<double>(sum) / static_cast<double>(window.totals.steps)) /
          1e3);
    if (rows.empty()) continue;
    map["first"].push_back(window.first);
    map["last"].push_back(window.last);
    map["values"].push_back(json_numbers(rows));
    most = std::max(most, std::ranges::max(rows));
  }
  return most > 0 ? map : ordered_json();
}

ordered_json heat_maps(const RankHistory& ranks) {
  ordered_json maps = ordered_json::array();
  if (ranks.ranks < 2) return maps;
  maps.push_back(heat_map(ranks, &WindowRows::late, "Lateness by rank",
                          "How late a rank came to the collectives as the last of its stage, mean "
                          "over all steps. Point at a cell, or use the arrow keys."));
  maps.push_back(heat_map(ranks, &WindowRows::data_wait, "Waits for data by rank", "Per step."));
  std::erase_if(maps.get_ref<ordered_json::array_t&>(),
                [](const ordered_json& map) { return map.is_null(); });
  return maps;
}

// Mean times of all ranks by window, by the parts' names.
ordered_json splits_of(const RankHistory& ranks) {
  if (ranks.windows.empty()) return nullptr;
  std::vector<double> last;
  for (const WindowRows& window : ranks.windows)
    last.push_back(static_cast<double>(window.last));
  ordered_json parts = ordered_json::object();
  for (const TimeRow& row : told_times(time_use::of_run)) {
    std::vector<double> means;
    for (const WindowRows& window : ranks.windows) {
      // Sums of thousandths: smaller digits are rounding errors.
      const double mean =
          parts_of(window.totals.times)[row.part] / static_cast<double>(window.totals.steps);
      means.push_back(std::round(1e6 * mean) / 1e6 + 0.0);
    }
    parts[std::string(row.name)] = json_numbers(means);
  }
  return {{"last", json_numbers(last)}, {"parts", parts}};
}

// Keys and names of a step's parts, and of the time between steps.
ordered_json phases() {
  ordered_json pairs = ordered_json::array();
  const auto add = [&](std::string_view key, std::string_view name) {
    pairs.push_back(ordered_json::array({key, name}));
  };
  for (const TimeRow& row : told_times(time_use::of_step))
    add(row.key, row.name);
  add(between_column, row_of(TimePart::between_steps).name);
  return pairs;
}

// In MiB; null if unknown.
ordered_json memory_of(const ModelFigures& figures) {
  std::vector<std::string> names;
  std::vector<double> planned, measured;
  for (const MemoryUse& use : figures.memory) {
    if (use.planned == 0 && use.measured.value_or(0) == 0) continue;
    names.push_back(use.name);
    planned.push_back(static_cast<double>(use.planned) / 0x1p20);
    measured.push_back(use.measured ? static_cast<double>(*use.measured) / 0x1p20 : no_value);
  }
  if (names.empty()) return nullptr;
  return {
      {"names", names}, {"planned", json_numbers(planned)}, {"measured", json_numbers(measured)}};
}

}  // namespace

ordered_json json_events(const Few<Event>& events) {
  ordered_json first = ordered_json::array();
  for (const Event& event : events.first)
    first.push_back({{"step", event.step}, {"text", event.text}});
  return {{"count", events.count}, {"first", first}};
}

ordered_json page_data(const RunData& run) {
  const MetricsHistory& all = run.metrics;
  const Buckets& buckets = all.buckets;
  return {{"name", run.name},
          {"items", all.items.empty() ? "items" : all.items},
          {"stride", buckets.stride()},
          {"step", last_steps(buckets)},
          {"seen", ascending_places(buckets, all.items + "_seen")},
          {"elapsed", ascending_places(buckets, elapsed_column)},
          {"series", series_of(all)},
          {"evaluations", evaluations_of(all)},
          {"skipped", json_events(all.skipped)},
          {"failed_saves", json_events(all.failed_saves)},
          {"non_finite", {{"count", all.non_finite.count}, {"first", all.non_finite.first}}},
          {"hosts", run.hosts},
          {"heat", heat_maps(run.ranks)},
          {"memory", memory_of(run.figures)},
          {"windows", splits_of(run.ranks)},
          {"phases", phases()}};
}

}  // namespace trireme::report
