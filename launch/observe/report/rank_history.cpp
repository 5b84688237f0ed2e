// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/report/rank_history.h"

#include <algorithm>

#include "runtime/base/line_reader.h"

namespace trireme::report {
namespace {

constexpr std::size_t most_windows = 240, most_rows = 256, most_starts = 1000;

// The maximum of each group of `per_row`.
std::vector<float> in_rows(const std::vector<float>& values, std::size_t per_row) {
  std::vector<float> rows((values.size() + per_row - 1) / per_row, 0);
  for (std::size_t i = 0; i < values.size(); ++i)
    rows[i / per_row] = std::max(rows[i / per_row], values[i]);
  return rows;
}

std::vector<float> values_of(const std::vector<Times>& ranks, TimePart part) {
  std::vector<float> values;
  for (const Times& rank : ranks)
    values.push_back(static_cast<float>(rank[part]));
  return values;
}

void merge(WindowRows& to, const WindowRows& later) {
  for (const auto member : {&WindowRows::late, &WindowRows::data_wait}) {
    std::vector<float>& sums = to.*member;
    const std::vector<float>& more = later.*member;
    sums.resize(std::max(sums.size(), more.size()));
    for (std::size_t i = 0; i < more.size(); ++i)
      sums[i] += more[i];
  }
  to.last = later.last;
  to.totals.add(later.totals);
}

class RanksReading {
 public:
  explicit RanksReading(const std::string& path) : reader_(path) {}

  RankHistory run() {
    while (const auto text = reader_.next()) {
      const std::optional<RankLine> line = parse_rank_line(*text);
      if (!line) {
        if (history_.broken++ == 0) history_.first_broken = reader_.number();
        continue;
      }
      history_.fold.take(*line);
      if (const auto* const start = std::get_if<RunStart>(&*line)) take_start(*start);
      if (const auto* const window = std::get_if<RankWindow>(&*line)) take_window(*window);
    }
    return std::move(history_);
  }

 private:
  void take_start(const RunStart& start) {
    // Steps after the restart's step are repeated.
    auto& windows = history_.windows;
    while (!windows.empty() && windows.back().last > start.step)
      windows.pop_back();
    history_.ranks_of_last_start = 0;
    ++history_.start_count;
    if (history_.starts.size() >= most_starts) history_.starts.pop_back();
    history_.starts.push_back(start);
  }

  void take_window(const RankWindow& window) {
    const auto ranks = static_cast<int>(window.ranks.size());
    history_.ranks_of_last_start = std::max(history_.ranks_of_last_start, ranks);
    widen(ranks);
    const auto per_row = static_cast<std::size_t>(history_.ranks_per_row);
    history_.windows.push_back(
        {.first = window.first,
         .last = window.last,
         .totals = window.totals,
         .late = in_rows(values_of(window.ranks, TimePart::late), per_row),
         .data_wait = in_rows(values_of(window.ranks, TimePart::data_wait), per_row)});
    if (history_.windows.size() >= most_windows) halve();
  }

  // Up to a limit each rank has a row; more ranks share rows.
  void widen(int ranks) {
    history_.ranks = std::max(history_.ranks, ranks);
    while (static_cast<std::size_t>(ranks) >
           most_rows * static_cast<std::size_t>(history_.ranks_per_row)) {
      history_.ranks_per_row *= 2;
      for (WindowRows& window : history_.windows) {
        window.late = in_rows(window.late, 2);
        window.data_wait = in_rows(window.data_wait, 2);
      }
    }
  }

  void halve() {
    std::vector<WindowRows> fewer;
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
