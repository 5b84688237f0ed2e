// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "launch/top/run_view.h"
#include "runtime/telemetry/console.h"
#include "runtime/telemetry/run_directory.h"
#include "runtime/telemetry/run_owner.h"

namespace trireme::top {
namespace {

bool has(const RunView& view, const char* name) {
  std::error_code unknown;
  return std::filesystem::exists(view.directory + "/" + name, unknown);
}

// Seconds without a line that are no reason to worry: some steps, or an evaluation.
double patience(const RunView& view) {
  constexpr double least = 30, steps = 20;
  const double step_ms = view.mean(&StepLine::step_ms);
  const double evaluation = view.evaluation ? 2 * view.evaluation->seconds : 0.0;
  return std::max({least, std::isfinite(step_ms) ? 1e-3 * steps * step_ms : 0.0, evaluation});
}

void judge_going(RunView& view, bool has_metrics, double age) {
  view.state_text.clear();
  if (!has_metrics || view.recent.empty()) {
    view.state = RunState::starting;
    return;
  }
  view.state = age > patience(view) ? RunState::stale : RunState::running;
  if (view.state == RunState::running) return;
  view.state_text = fmt::format("no line for {}", format_duration(age));
  const double step_ms = view.mean(&StepLine::step_ms);
  if (step_ms > 0)
    view.state_text += fmt::format(", the time of {:.0f} steps", 1e3 * age / step_ms);
}

void judge_ended(RunView& view) {
  const bool all = view.steps > 0 && view.step() >= view.steps;
  if (view.log_end.find("stopped before step") != std::string::npos) {
    view.state = RunState::stopped;
    view.state_text = "with a checkpoint; the same command goes on";
  } else if (view.log_end.starts_with("[error]") || view.log_end.starts_with("[critical]")) {
    view.state = RunState::failed;
    view.state_text = view.log_end;
  } else if (all && has(view, "weights.safetensors")) {
    view.state = RunState::finished;
  } else {
    view.state = RunState::ended;
    view.state_text = "nobody holds its lock, and its log does not say why";
  }
}

}  // namespace

std::string_view name_of(RunState state) {
  switch (state) {
    case RunState::missing:
      return "missing";
    case RunState::starting:
      return "starting";
    case RunState::running:
      return "running";
    case RunState::stale:
      return "STALE";
    case RunState::finished:
      return "finished";
    case RunState::stopped:
      return "stopped";
    case RunState::failed:
      return "FAILED";
    case RunState::ended:
      break;
  }
  return "ENDED";
}

double RunView::mean(double StepLine::*member) const {
  double sum = 0;
  int count = 0;
  const std::size_t first = recent.size() > mean_steps ? recent.size() - mean_steps : 0;
  for (std::size_t i = first; i < recent.size(); ++i) {
    if (!std::isfinite(recent[i].*member)) continue;
    sum += recent[i].*member;
    ++count;
  }
  return count > 0 ? sum / count : unknown;
}

double RunView::share_done() const {
  return steps > 0 ? static_cast<double>(step()) / static_cast<double>(steps) : 0.0;
}

double RunView::time_left() const {
  if (steps == 0 || recent.empty()) return unknown;
  return 1e-3 * mean(&StepLine::step_ms) *
         static_cast<double>(std::max<std::int64_t>(steps - step(), 0));
}

void judge(RunView& view, bool has_metrics, double age) {
  view.state_text.clear();
  const bool is_run = has_metrics || has(view, "config.yaml") || has(view, "owner.json");
  if (!is_run) {
    std::error_code unknown;
    view.state = RunState::missing;
    view.state_text = std::filesystem::is_directory(view.directory, unknown)
                          ? "nothing of a run in it yet"
                          : "no such directory yet";
    return;
  }
  const std::optional<bool> held = RunOwner::is_held(view.directory);
  if (held.value_or(false)) return judge_going(view, has_metrics, age);
  judge_ended(view);
  // This host may not see locks of others: where nothing says that it ended, a new line tells.
  const bool seen_here = held && view.on_this_host;
  if (view.state == RunState::ended && !seen_here && has_metrics && age <= patience(view))
    judge_going(view, has_metrics, age);
}

}  // namespace trireme::top
