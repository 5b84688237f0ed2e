// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/top/live_view.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "launch/observe/top/cells.h"
#include "launch/observe/top/frame.h"
#include "launch/observe/top/run_set.h"
#include "launch/observe/top/screen.h"
#include "runtime/base/clock.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/base/terminal.h"

namespace trireme::top {
namespace {

using Clock = std::chrono::steady_clock;

std::size_t page_columns() {
  if (const std::size_t columns = terminal_width(STDOUT_FILENO); columns > 2) return columns;
  constexpr std::size_t usual = 100;
  return static_cast<std::size_t>(environment_number("COLUMNS", 20, 1000).value_or(usual));
}

std::string json_of(std::span<const RunView* const> views) {
  using nlohmann::ordered_json;
  ordered_json runs = ordered_json::array();
  for (const RunView* const view : views) {
    const runs::MetricsLine last = view->recent.empty() ? runs::MetricsLine() : view->recent.back();
    ordered_json run{{"name", view->name},
                     {"directory", view->directory},
                     {"state", runs::name_of(view->standing.status)},
                     {"because", view->standing.text},
                     {"setting", view->summary},
                     {"step", view->step()},
                     {"steps", view->steps},
                     {"loss", last.number("loss")},
                     {"mean_loss", view->mean("loss")},
                     {"grad_norm", last.number("grad_norm")},
                     {"learning_rate", last.number("lr")},
                     {"items", last.items()},
                     {"items_per_second", view->items_per_second()},
                     {"step_ms", view->mean("step_ms")},
                     {"seconds_left", view->time_left()},
                     {"validation", nullptr},
                     {"checkpoint", nullptr},
                     {"warnings", view->warning_count},
                     {"problem", view->problem}};
    if (view->evaluation)
      run["validation"] = {{"step", view->evaluation->step()},
                           {"loss", view->evaluation->number("validation_loss")}};
    if (view->standing.checkpoint)
      run["checkpoint"] = {{"step", view->standing.checkpoint->step},
                           {"age_seconds", view->checkpoint_age()}};
    runs.push_back(std::move(run));
  }
  return ordered_json{{"runs", runs}}.dump(2, ' ', false, ordered_json::error_handler_t::replace) +
         "\n";
}

void show_page(const Request& request) {
  RunSet runs(request.places);
  runs.refresh();
  const auto views = runs.views();
  const bool any = std::ranges::any_of(
      views, [](const RunView* view) { return view->standing.status != RunStatus::missing; });
  if (!any) {
    fail(ExitCode::config,
         "{}: there is no run; give the directory of a run (run.directory of its config), one "
         "above such directories, or a pattern",
         fmt::join(request.places, ", "));
  }
  if (request.json) {
    fmt::print("{}", json_of(views));
    return;
  }
  for (const std::string& line :
       frame(views, 0, {.columns = page_columns(), .utf8 = locale_has_utf8()}))
    fmt::print("{}\n", line);
}

std::size_t moved(std::size_t chosen, std::size_t count, Key key) {
  if (count == 0) return 0;
  switch (key) {
    case Key::up:
      return chosen > 0 ? chosen - 1 : 0;
    case Key::down:
      return std::min(chosen + 1, count - 1);
    case Key::first:
      return 0;
    case Key::last:
      return count - 1;
    default:
      return std::min(chosen, count - 1);
  }
}

std::string keys_text(const RunSet& runs, double interval) {
  std::string text = "q quit";
  if (runs.views().size() > 1)
    text += fmt::format("  arrows choose of {} runs", runs.views().size());
  text += fmt::format("  every {:g} s", interval);
  if (runs.left_out() > 0) text += fmt::format("  {} more runs are left out", runs.left_out());
  return text;
}

// Returns the signal that ends this program; 0: the user quit, or the terminal is gone.
int run_screen(const Request& request) {
  RunSet runs(request.places);
  Screen screen(STDIN_FILENO, STDOUT_FILENO);
  std::size_t chosen = 0;
  Clock::time_point due{};  // time of the next poll
  double interval = request.interval_seconds;
  for (;;) {
    if (Clock::now() >= due) {
      const auto begin = Clock::now();
      runs.refresh();
      // Polls a slow file system less often.
      interval = std::max(request.interval_seconds, 4 * seconds_since(begin));
      due = Clock::now() +
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(interval));
    }
    const auto views = runs.views();
    chosen = moved(chosen, views.size(), Key::none);
    const ScreenSize size = screen.size();
    const FrameOptions options{.columns = size.columns,
                               .rows = size.rows,
                               .utf8 = locale_has_utf8(),
                               .highlight = true,
                               .keys = keys_text(runs, std::round(10 * interval) / 10)};
    if (!screen.draw(frame(views, chosen, options))) return 0;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - Clock::now());
    const Screen::Event event = screen.wait(std::max(left, std::chrono::milliseconds(1)));
    if (event.signal != 0) return event.signal;
    if (event.closed || event.key == Key::quit) return 0;
    if (event.key == Key::redraw) due = {};
    chosen = moved(chosen, views.size(), event.key);
  }
}

}  // namespace

void show(const Request& request) {
  if (request.once || request.json || terminal_width(STDOUT_FILENO) == 0) return show_page(request);
  const int signal = run_screen(request);
  // Raises the signal again once the terminal is restored.
  if (signal != 0) ::raise(signal);
}

}  // namespace trireme::top
