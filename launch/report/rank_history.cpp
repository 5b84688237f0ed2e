// SPDX-License-Identifier: Apache-2.0
#include "launch/report/rank_history.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "launch/report/metrics_history.h"
#include "runtime/base/json.h"
#include "runtime/base/line_reader.h"

namespace trireme::report {
namespace {

using RankJson = nlohmann::json;

constexpr std::size_t most_windows = 240, most_rows = 256, most_starts = 1000;

double number_of(const RankJson& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return 0;
  const double value = found->get<double>();
  return std::isfinite(value) ? value : 0;
}

std::int64_t whole_of(const RankJson& object, const char* key) {
  return static_cast<std::int64_t>(std::clamp(number_of(object, key), 0.0, 0x1p53));
}

double time_of(const RankJson& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_string()) return 0;
  return seconds_of(found->get<std::string>()).value_or(0);
}

std::vector<double> numbers_of(const RankJson& list) {
  std::vector<double> values;
  for (const RankJson& value : list) {
    const double number = value.is_number() ? value.get<double>() : 0;
    values.push_back(std::isfinite(number) ? number : 0);
  }
  return values;
}

// The greatest of each group of `per_row`.
std::vector<float> rows_of(const std::vector<double>& by_rank, std::size_t per_row) {
  std::vector<float> rows((by_rank.size() + per_row - 1) / per_row, 0);
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    float& row = rows[rank / per_row];
    row = std::max(row, static_cast<float>(by_rank[rank]));
  }
  return rows;
}

void merge(RankWindow& to, const RankWindow& later) {
  const auto mine = static_cast<double>(to.steps), theirs = static_cast<double>(later.steps);
  for (const auto& [name, value] : later.split) {
    double& mean = to.split[name];
    mean = (mean * mine + value * theirs) / std::max(mine + theirs, 1.0);
  }
  for (const auto& [name, rows] : later.by_rank) {
    std::vector<float>& sums = to.by_rank[name];
    sums.resize(std::max(sums.size(), rows.size()));
    for (std::size_t i = 0; i < rows.size(); ++i)
      sums[i] += rows[i];
  }
  to.last = later.last;
  to.time = later.time;
  to.steps += later.steps;
}

class RanksReading {
 public:
  explicit RanksReading(const std::string& path) : reader_(path) {}

  RankHistory run() {
    while (const auto line = reader_.next()) {
      const RankJson parsed = json_or_discarded(*line);
      const bool folded = history_.fold.line(*line);
      if (parsed.is_object() && (take_start(parsed) || take_window(parsed) || folded)) continue;
      if (history_.broken++ == 0) history_.first_broken = reader_.number();
    }
    return std::move(history_);
  }

 private:
  bool take_start(const RankJson& line) {
    if (!line.contains("start")) return false;
    RunStart start{.step = whole_of(line, "step"),
                   .lost = {whole_of(line, "lost_steps"), std::max(number_of(line, "lost_s"), 0.0)},
                   .time = time_of(line, "start")};
    start.ranks = static_cast<int>(std::min<std::int64_t>(whole_of(line, "ranks"), 1 << 24));
    if (const auto hosts = line.find("hosts"); hosts != line.end() && hosts->is_array()) {
      for (const RankJson& host : *hosts)
        start.hosts.push_back(host.is_string() ? host.get<std::string>() : "?");
    }
    if (const auto mesh = line.find("mesh"); mesh != line.end() && mesh->is_object()) {
      for (const auto& [axis, size] : mesh->items()) {
        if (size.is_number_integer()) start.mesh[axis] = size.get<int>();
      }
    }
    if (const auto facts = line.find("facts"); facts != line.end()) start.facts = facts->dump();
    forget_lost(start.step);
    history_.totals.clear();
    history_.totals_steps = 0;
    ++history_.start_count;
    if (history_.starts.size() >= most_starts) history_.starts.pop_back();
    history_.starts.push_back(std::move(start));
    return true;
  }

  // What lies behind the step that a start goes on from is done again.
  void forget_lost(std::int64_t step) {
    auto& windows = history_.windows;
    while (!windows.empty() && windows.back().last > step)
      windows.pop_back();
  }

  bool take_window(const RankJson& line) {
    const auto steps = line.find("steps");
    const auto by_rank = line.find("by_rank");
    if (steps == line.end() || !steps->is_array() || steps->size() != 2 ||
        !(*steps)[0].is_number_integer() || !(*steps)[1].is_number_integer() ||
        by_rank == line.end() || !by_rank->is_object())
      return false;
    RankWindow window{.first = (*steps)[0].get<std::int64_t>(),
                      .last = (*steps)[1].get<std::int64_t>(),
                      .time = time_of(line, "timestamp")};
    if (window.first < 0 || window.last < window.first || window.last > std::int64_t{1} << 53)
      return false;
    window.steps = window.last - window.first + 1;
    if (const auto split = line.find("split"); split != line.end() && split->is_object()) {
      for (const auto& [name, value] : split->items()) {
        if (value.is_number()) window.split[name] = number_of(*split, name.c_str());
      }
    }
    take_ranks(*by_rank, window);
    history_.steps += window.steps;
    history_.windows.push_back(std::move(window));
    if (history_.windows.size() >= most_windows) halve();
    return true;
  }

  void take_ranks(const RankJson& by_rank, RankWindow& window) {
    history_.totals_steps += window.steps;
    for (const auto& [name, list] : by_rank.items()) {
      if (!list.is_array() || list.empty()) continue;
      std::vector<double> values = numbers_of(list);
      for (double& value : values)
        value *= static_cast<double>(window.steps);
      widen(values.size());
      std::vector<double>& totals = history_.totals[name];
      totals.resize(std::max(totals.size(), values.size()));
      for (std::size_t rank = 0; rank < values.size(); ++rank)
        totals[rank] += values[rank];
      window.by_rank[name] = rows_of(values, static_cast<std::size_t>(history_.ranks_per_row));
    }
  }

  // So many ranks get a row each, or share rows.
  void widen(std::size_t ranks) {
    history_.ranks = std::max(history_.ranks, static_cast<int>(ranks));
    while (ranks > most_rows * static_cast<std::size_t>(history_.ranks_per_row)) {
      history_.ranks_per_row *= 2;
      for (RankWindow& window : history_.windows) {
        for (auto& [name, rows] : window.by_rank)
          rows = rows_of({rows.begin(), rows.end()}, 2);
      }
    }
  }

  void halve() {
    std::vector<RankWindow> fewer;
    for (std::size_t i = 0; i < history_.windows.size(); ++i) {
      if (i % 2 == 0)
        fewer.push_back(std::move(history_.windows[i]));
      else
        merge(fewer.back(), history_.windows[i]);
    }
    history_.windows = std::move(fewer);
  }

  LineReader reader_;
  RankHistory history_;
};

}  // namespace

RankHistory read_ranks(const std::string& path) {
  return RanksReading(path).run();
}

}  // namespace trireme::report
