// SPDX-License-Identifier: Apache-2.0
#include "launch/top/run_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "launch/top/log_end.h"
#include "runtime/telemetry/console.h"
#include "runtime/telemetry/run_owner.h"

namespace trireme::top {
namespace {

bool has(const RunSigns& signs, const char* name) {
  std::error_code unknown;
  return std::filesystem::exists(signs.directory + "/" + name, unknown);
}

// Seconds without a line that are no reason to worry: some steps, or an evaluation.
double patience(const RunSigns& signs) {
  constexpr double least = 30, steps = 20;
  return std::max({least, std::isfinite(signs.step_ms) ? 1e-3 * steps * signs.step_ms : 0.0,
                   2 * signs.evaluation_seconds});
}

RunStanding judge_going(const RunSigns& signs) {
  if (!signs.has_metrics || signs.step == 0) return {.state = RunState::starting};
  if (signs.age <= patience(signs)) return {.state = RunState::running};
  RunStanding stale{.state = RunState::stale,
                    .text = fmt::format("no line for {}", format_duration(signs.age))};
  if (signs.step_ms > 0)
    stale.text += fmt::format(", the time of {:.0f} steps", 1e3 * signs.age / signs.step_ms);
  return stale;
}

std::string how_to_go_on(const RunSigns& signs) {
  if (!signs.checkpoint_step) return "there is no checkpoint: the same command begins anew";
  return fmt::format("the same command goes on from the checkpoint of step {}",
                     *signs.checkpoint_step);
}

RunStanding judge_ended(const RunSigns& signs) {
  const std::string& log_end = signs.log_end;
  if (log_end.starts_with(until_mark))
    return {.state = RunState::finished, .text = "up to the step that --until named"};
  if (log_end.find("stopped before step") != std::string::npos)
    return {.state = RunState::stopped, .text = how_to_go_on(signs)};
  if (log_end.starts_with("[error]") || log_end.starts_with("[critical]"))
    return {.state = RunState::failed, .text = log_end};
  const bool all = signs.steps > 0 && signs.step >= signs.steps;
  if (all && (signs.came_to_its_end || has(signs, "weights.safetensors")))
    return {.state = RunState::finished};
  return {.state = RunState::ended,
          .text =
              "nobody holds its lock, and its log does not say why: killed, or its host went "
              "away; " +
              how_to_go_on(signs)};
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

bool went_wrong(RunState state) {
  return state == RunState::failed || state == RunState::ended || state == RunState::stale;
}

RunStanding judge(const RunSigns& signs) {
  const bool is_run = signs.has_metrics || has(signs, "config.yaml") || has(signs, "owner.json");
  if (!is_run) {
    std::error_code unknown;
    return {.text = std::filesystem::is_directory(signs.directory, unknown)
                        ? "nothing of a run in it yet"
                        : "no such directory yet"};
  }
  const std::optional<bool> held = RunOwner::is_held(signs.directory);
  if (held.value_or(false)) return judge_going(signs);
  const RunStanding ended = judge_ended(signs);
  // This host may not see locks of others: where nothing says that it ended, a new line tells.
  const bool seen_here = held && signs.on_this_host;
  if (ended.state == RunState::ended && !seen_here && signs.has_metrics &&
      signs.age <= patience(signs))
    return judge_going(signs);
  return ended;
}

}  // namespace trireme::top
