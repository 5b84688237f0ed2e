// SPDX-License-Identifier: Apache-2.0
#include "launch/run/run_standing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "runtime/telemetry/console.h"
#include "runtime/telemetry/run_directory.h"
#include "runtime/telemetry/run_owner.h"

namespace trireme::runs {
namespace {

bool has(const RunSigns& signs, const char* name) {
  std::error_code unknown;
  return std::filesystem::exists(signs.directory + "/" + name, unknown);
}

// Normal silence in seconds: some steps, or an evaluation.
double patience(const RunSigns& signs) {
  constexpr double least = 30, steps = 20;
  return std::max({least, std::isfinite(signs.step_ms) ? 1e-3 * steps * signs.step_ms : 0.0,
                   2 * signs.evaluation_seconds});
}

void judge_going(const RunSigns& signs, RunStanding& standing) {
  if (!signs.has_metrics || signs.step == 0) {
    standing.status = RunStatus::starting;
  } else if (signs.age <= patience(signs)) {
    standing.status = RunStatus::running;
  } else {
    standing.status = RunStatus::stale;
    standing.text = fmt::format("no line for {}", format_duration(signs.age));
    if (signs.step_ms > 0)
      standing.text += fmt::format(", the time of {:.0f} steps", 1e3 * signs.age / signs.step_ms);
  }
}

void judge_ended(const RunSigns& signs, RunStanding& standing) {
  const std::string& log_end = standing.log_end;
  const std::string how_to_go_on =
      standing.checkpoint ? fmt::format("the same command resumes from the checkpoint of step {}",
                                        standing.checkpoint->step)
                          : "there is no checkpoint: the same command starts from the beginning";
  const bool all = signs.steps > 0 && signs.step >= signs.steps;
  if (log_end.starts_with(until_mark)) {
    standing.status = RunStatus::finished;
    standing.text = "up to the step that --until named";
  } else if (log_end.find("stopped before step") != std::string::npos) {
    standing.status = RunStatus::stopped;
    standing.text = how_to_go_on;
  } else if (log_end.starts_with("[error]") || log_end.starts_with("[critical]")) {
    standing.status = RunStatus::failed;
    standing.text = log_end;
  } else if (!signs.reached.empty()) {
    standing.status = RunStatus::finished;
    standing.text = fmt::format("stopped: {} at step {}", signs.reached, signs.step);
  } else if (all && (signs.came_to_its_end || has(signs, "weights.safetensors"))) {
    standing.status = RunStatus::finished;
  } else if (const auto end = RunOwner::end_of(signs.directory); end && !signs.has_metrics) {
    standing.status = RunStatus::finished;
    standing.text = fmt::format("after {} steps, of a program that writes no metrics.jsonl", *end);
  } else {
    standing.status = RunStatus::ended;
    standing.text =
        "no process holds its lock, and its log does not say why: it was killed, or its host "
        "failed; " +
        how_to_go_on;
  }
}

// In the order of RunStatus.
constexpr std::array<std::string_view, 8> names{"missing",  "starting", "running", "STALE",
                                                "finished", "stopped",  "FAILED",  "ENDED"};

}  // namespace

std::string_view name_of(RunStatus status) {
  return names[static_cast<std::size_t>(status)];
}

bool went_wrong(RunStatus status) {
  return status == RunStatus::failed || status == RunStatus::ended || status == RunStatus::stale;
}

RunStanding judge(const RunSigns& signs) {
  RunStanding standing{.log_end = log_end_of(RunDirectory::log_in(signs.directory)),
                       .checkpoint = newest_stored(signs.directory)};
  const bool is_run = signs.has_metrics || has(signs, "config.yaml") || has(signs, "owner.json");
  if (!is_run) {
    std::error_code unknown;
    standing.text = std::filesystem::is_directory(signs.directory, unknown)
                        ? "nothing of a run in it yet"
                        : "no such directory yet";
    return standing;
  }
  const std::optional<bool> held = RunOwner::is_held(signs.directory);
  if (!held.value_or(false)) judge_ended(signs, standing);
  // This host may not see the locks of others: if no end is recorded, a new line shows that it
  // runs.
  const bool unseen = !(held && signs.on_this_host) && standing.status == RunStatus::ended &&
                      signs.has_metrics && signs.age <= patience(signs);
  if (held.value_or(false) || unseen) {
    standing.text.clear();
    judge_going(signs, standing);
  }
  return standing;
}

}  // namespace trireme::runs
