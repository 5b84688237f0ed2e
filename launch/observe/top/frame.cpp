// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/top/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "launch/observe/top/cells.h"
#include "runtime/telemetry/console.h"

namespace trireme::top {
namespace {

// Columns before the sparkline; the rightmost go first if the screen is narrow.
struct Column {
  std::string_view head;
  std::size_t columns;
  std::string (*text)(const RunView& view);
};
const Column table_columns[] = {
    {"state", 8,
     [](const RunView& view) { return std::string(runs::name_of(view.standing.status)); }},
    {"done", 5,
     [](const RunView& view) {
       return view.steps > 0 ? fmt::format("{:.0f} %", std::floor(100 * view.share_done()))
                             : std::string("-");
     }},
    {"loss", 8, [](const RunView& view) { return number_text(view.mean("loss"), "{:.4f}"); }},
    {"left", 8,
     [](const RunView& view) {
       const bool going =
           view.standing.status == RunStatus::running || view.standing.status == RunStatus::stale;
       return going ? format_duration(view.time_left()) : std::string("-");
     }},
    {"items/s", 8,
     [](const RunView& view) {
       const double rate = view.items_per_second();
       return std::isfinite(rate) ? format_quantity(rate) : std::string("-");
     }},
    {"warnings", 8,
     [](const RunView& view) {
       return view.warning_count > 0 ? std::to_string(view.warning_count) : std::string("-");
     }},
};

// The number of columns that fit beside a name.
std::size_t columns_that_fit(std::size_t width, std::size_t name) {
  std::size_t count = 0, taken = name + 2;
  for (const Column& column : table_columns) {
    taken += column.columns + 2;
    if (taken > width) break;
    ++count;
  }
  return count;
}

}  // namespace

std::vector<std::string> table_lines(std::span<const RunView* const> views, std::size_t chosen,
                                     std::size_t rows, const FrameOptions& options) {
  std::size_t name = 4;
  for (const RunView* const view : views)
    name = std::max(name, columns_of(clean(view->name, options.utf8)));
  constexpr std::size_t least_name = 12;
  const std::size_t shown =
      columns_that_fit(options.columns, std::min(std::max(name, least_name), options.columns / 3));
  std::size_t taken = 2;
  for (std::size_t i = 0; i < shown; ++i)
    taken += table_columns[i].columns + 2;
  name = std::min(name, options.columns > taken ? options.columns - taken : 1);

  std::string head = "  " + padded("run", name);
  for (std::size_t i = 0; i < shown; ++i)
    head += fmt::format("  {:>{}}", table_columns[i].head, table_columns[i].columns);
  std::vector<std::string> lines{cut(head, options.columns)};
  const std::size_t room = rows == 0 ? views.size() : std::max<std::size_t>(rows, 2) - 1;
  const std::size_t first =
      views.size() <= room
          ? 0
          : std::min(chosen > room / 2 ? chosen - room / 2 : 0, views.size() - room);
  for (std::size_t i = first; i < std::min(first + room, views.size()); ++i) {
    const bool is_chosen = options.highlight && i == chosen;
    std::string line = (is_chosen ? "> " : "  ") +
                       padded(cut_front(clean(views[i]->name, options.utf8), name), name);
    for (std::size_t column = 0; column < shown; ++column)
      line += fmt::format("  {:>{}}", table_columns[column].text(*views[i]),
                          table_columns[column].columns);
    line = padded(line, options.columns);
    if (!is_chosen) line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(is_chosen ? "\x1b[7m" + line + "\x1b[0m" : line);
  }
  return lines;
}

std::vector<std::string> frame(std::span<const RunView* const> views, std::size_t chosen,
                               const FrameOptions& options) {
  std::vector<std::string> lines;
  const std::size_t keys = options.keys.empty() ? 0 : 1;
  const std::size_t room = options.rows > keys ? options.rows - keys : 0;
  if (views.size() > 1) {
    lines = table_lines(views, chosen, options.rows == 0 ? 0 : std::max<std::size_t>(room / 2, 2),
                        options);
    lines.emplace_back();
  }
  // A screen shows one run, a page all.
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (options.rows > 0 && i != chosen) continue;
    if (options.rows == 0 && i > 0) lines.emplace_back();
    for (std::string& line : run_lines(*views[i], options))
      lines.push_back(std::move(line));
  }
  if (options.rows > 0) {
    if (lines.size() > room) lines.resize(room);
    if (keys > 0) lines.push_back(cut(options.keys, options.columns));
  }
  return lines;
}

}  // namespace trireme::top
