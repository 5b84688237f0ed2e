// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "launch/observe/report/html.h"
#include "launch/observe/report/runs_page.h"

namespace trireme::report {
namespace {

constexpr double no_value = std::numeric_limits<double>::quiet_NaN();

// Values per bucket, in order.
template <typename Value>
std::string numbers_by_bucket(const Buckets& buckets, Value&& value) {
  std::vector<double> values;
  for (const Bucket& bucket : buckets.all())
    values.push_back(value(bucket));
  return json_numbers(values);
}

// Charts need ascending places. A clock that was set back, or a repeated step, breaks that order.
std::string ascending_places(const Buckets& buckets, std::string_view name) {
  const std::size_t column = buckets.find(name);
  double reached = 0;
  return numbers_by_bucket(buckets, [&](const Bucket& bucket) {
    if (const Cell* const cell = bucket.cell(column)) reached = std::max(reached, cell->last);
    return reached;
  });
}

std::string whole_numbers(const Buckets& buckets) {
  std::string text;
  for (const Bucket& bucket : buckets.all())
    text += fmt::format("{}{}", text.empty() ? "" : ",", bucket.last);
  return "[" + text + "]";
}

// Mean per bucket; minimum and maximum too for series with spikes.
std::string series_of(const MetricsHistory& all) {
  const Buckets& buckets = all.buckets;
  const std::string rate = all.items + "_per_s", seen = all.items + "_seen";
  const std::set<std::string_view> with_range = {"loss", "grad_norm",    "step_ms",     rate,
                                                 "mfu",  "data_wait_ms", between_column};
  const std::set<std::string_view> places = {elapsed_column, seen, "epoch"};
  std::string text;
  for (std::size_t column = 0; column < buckets.columns().size(); ++column) {
    const std::string& name = buckets.columns()[column];
    if (places.contains(name)) continue;
    const auto values = [&](double (*of)(const Cell&)) {
      return numbers_by_bucket(buckets, [&](const Bucket& bucket) {
        const Cell* const cell = bucket.cell(column);
        return cell != nullptr ? of(*cell) : no_value;
      });
    };
    text += fmt::format("{}{}:{{\"mean\":{}", text.empty() ? "" : ",", json_string(name),
                        values([](const Cell& cell) { return cell.mean(); }));
    if (buckets.stride() > 1 && with_range.contains(name)) {
      text +=
          fmt::format(",\"min\":{},\"max\":{}", values([](const Cell& cell) { return cell.min; }),
                      values([](const Cell& cell) { return cell.max; }));
    }
    text += "}";
  }
  return "{" + text + "}";
}

// By name; null for evaluations without the source.
std::string sources_of(const std::vector<Evaluation>& evaluations) {
  std::map<std::string, std::vector<double>> losses;
  for (std::size_t i = 0; i < evaluations.size(); ++i) {
    for (const auto& [name, loss] : evaluations[i].sources)
      losses.try_emplace(name, evaluations.size(), no_value).first->second[i] = loss;
  }
  std::string text;
  for (const auto& [name, values] : losses)
    text +=
        fmt::format("{}{}:{}", text.empty() ? "" : ",", json_string(name), json_numbers(values));
  return "{" + text + "}";
}

std::string evaluations_of(const MetricsHistory& all) {
  std::vector<double> steps, losses, accuracies, elapsed;
  for (const Evaluation& one : all.evaluations) {
    steps.push_back(static_cast<double>(one.step));
    losses.push_back(one.loss);
    accuracies.push_back(one.accuracy.value_or(no_value));
    elapsed.push_back(one.elapsed);
  }
  return fmt::format("{{\"step\":{},\"loss\":{},\"accuracy\":{},\"elapsed\":{},\"sources\":{}}}",
                     json_numbers(steps), json_numbers(losses), json_numbers(accuracies),
                     json_numbers(elapsed), sources_of(all.evaluations));
}

std::string events_of(const Few<Event>& events) {
  std::string text;
  for (const Event& event : events.first)
    text += fmt::format("{}{{\"step\":{},\"text\":{}}}", text.empty() ? "" : ",", event.step,
                        json_string(event.text));
  return fmt::format("{{\"count\":{},\"first\":[{}]}}", events.count, text);
}

std::string non_finite_of(const MetricsHistory& all) {
  return fmt::format("{{\"count\":{},\"first\":[{}]}}", all.non_finite.count,
                     fmt::join(all.non_finite.first, ","));
}

// Milliseconds per step by window and row; "" if all are 0.
std::string heat_map(const RankHistory& ranks, std::vector<float> WindowRows::*member,
                     std::string_view title, std::string_view caption) {
  std::string first, last, values;
  double most = 0;
  for (const WindowRows& window : ranks.windows) {
    std::vector<double> rows;
    for (const float sum : window.*member)
      rows.push_back(
          std::round(1e3 * static_cast<double>(sum) / static_cast<double>(window.totals.steps)) /
          1e3);
    if (rows.empty()) continue;
    const char* const comma = first.empty() ? "" : ",";
    first += fmt::format("{}{}", comma, window.first);
    last += fmt::format("{}{}", comma, window.last);
    values += comma + json_numbers(rows);
    most = std::max(most, std::ranges::max(rows));
  }
  if (!(most > 0)) return {};
  return fmt::format(
      "{{\"title\":{},\"caption\":{},\"ranks_per_row\":{},\"first\":[{}],\"last\":[{}],"
      "\"values\":[{}]}}",
      json_string(title), json_string(caption), ranks.ranks_per_row, first, last, values);
}

std::string heat_maps(const RankHistory& ranks) {
  if (ranks.ranks < 2) return "[]";
  std::string late = heat_map(
      ranks, &WindowRows::late, "Lateness by rank",
      "By how much a rank came to the collectives as the last of its stage, mean over all steps. "
      "Point at a cell, or use the arrow keys.");
  std::string waits =
      heat_map(ranks, &WindowRows::data_wait, "Waits for data by rank", "Per step.");
  if (!late.empty() && !waits.empty()) late += ",";
  return "[" + late + waits + "]";
}

// Means of the time split per window, by part name.
std::string splits_of(const RankHistory& ranks) {
  if (ranks.windows.empty()) return "null";
  std::vector<double> last;
  for (const WindowRows& window : ranks.windows)
    last.push_back(static_cast<double>(window.last));
  std::string text;
  for (const TimeRow& row : told_times(time_use::of_run)) {
    std::vector<double> means;
    for (const WindowRows& window : ranks.windows) {
      // Ignores rounding: the parts are sums of thousandths.
      const double mean =
          parts_of(window.totals.times)[row.part] / static_cast<double>(window.totals.steps);
      means.push_back(std::round(1e6 * mean) / 1e6 + 0.0);
    }
    text += fmt::format(",{}:{}", json_string(row.name), json_numbers(means));
  }
  return fmt::format("{{\"last\":{},\"parts\":{{{}}}}}", json_numbers(last), text.substr(1));
}

// Keys and names of a step's parts, and of time between steps.
std::string phases() {
  std::string text;
  for (const TimeRow& row : told_times(time_use::of_step))
    text += fmt::format("[{},{}],", json_string(row.key), json_string(row.name));
  return fmt::format("[{}[{},{}]]", text, json_string(between_column),
                     json_string(row_of(TimePart::between_steps).name));
}

std::string host_names(const std::vector<std::string>& hosts) {
  std::string text;
  for (const std::string& host : hosts)
    text += (text.empty() ? "" : ",") + json_string(host);
  return "[" + text + "]";
}

// In MiB; "null" if unknown.
std::string memory_of(const ModelFigures& figures) {
  std::string names;
  std::vector<double> planned, measured;
  for (const MemoryUse& use : figures.memory) {
    if (use.planned == 0 && use.measured.value_or(0) == 0) continue;
    names += (names.empty() ? "" : ",") + json_string(use.name);
    planned.push_back(static_cast<double>(use.planned) / 0x1p20);
    measured.push_back(use.measured ? static_cast<double>(*use.measured) / 0x1p20 : no_value);
  }
  if (names.empty()) return "null";
  return fmt::format("{{\"names\":[{}],\"planned\":{},\"measured\":{}}}", names,
                     json_numbers(planned), json_numbers(measured));
}

}  // namespace

std::string page_data(const RunData& run) {
  const MetricsHistory& all = run.metrics;
  const Buckets& buckets = all.buckets;
  return fmt::format(
      "{{\"name\":{},\"items\":{},\"stride\":{},\"step\":{},\"seen\":{},\"elapsed\":{},"
      "\"series\":{},\"evaluations\":{},\"skipped\":{},\"failed_saves\":{},\"non_finite\":{},"
      "\"hosts\":{},\"heat\":{},\"memory\":{},\"windows\":{},\"phases\":{}}}",
      json_string(run.name), json_string(all.items.empty() ? "items" : all.items), buckets.stride(),
      whole_numbers(buckets), ascending_places(buckets, all.items + "_seen"),
      ascending_places(buckets, elapsed_column), series_of(all), evaluations_of(all),
      events_of(all.skipped), events_of(all.failed_saves), non_finite_of(all),
      host_names(run.hosts), heat_maps(run.ranks), memory_of(run.figures), splits_of(run.ranks),
      phases());
}

}  // namespace trireme::report
