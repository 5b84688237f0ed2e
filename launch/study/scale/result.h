// SPDX-License-Identifier: Apache-2.0
// The result of one run, and its file for --resume.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/telemetry/times.h"

namespace trireme::scale {

// Where and when a run was, from its environment.json; empty without one.
struct RunPlace {
  std::vector<std::string> hosts{};  // each once, in the order of their first ranks
  int ranks_per_host = 0;            // maximum
  std::string cpu{};                 // of the first host
  int cores = 0;                     // that its ranks may use together
  std::string device{};              // "cpu" or "cuda"
  std::string started{};             // UTC, ISO 8601
  // More ranks on a host than cores. Ranks with GPUs do not count.
  [[nodiscard]] bool shares_cores() const {
    return device == "cpu" && cores > 0 && ranks_per_host > cores;
  }
};

struct RunResult {
  std::uint64_t command = 0;  // checksum of what ran
  int code = 0;
  std::string error;  // last words of a failed run's log
  // Seconds per step: means over ranks and measured steps, by the parts of time_split.jsonl, with
  // the time between steps in compute, and without core_wait, with which they add up to the period.
  Times parts{};
  // 0: the parts are per step; else sums of so many steps, until the target loss.
  std::int64_t steps_to_loss = 0;
  int slowest_rank = 0;  // the slowest in most steps
  RunPlace place{};
  // Of all hosts, mean over the measured steps (to a loss: all steps); nothing unless all steps
  // have it.
  std::optional<double> joules_per_step{};
  std::string certificate{};   // last digest of certificate.jsonl: equal for equal runs
  std::string command_line{};  // as started
  int turn = 0;                // position in its repeat's order, from 1
};

// Adds energy and certificate, from metrics.jsonl and certificate.jsonl of the run in `directory`.
void read_records(RunResult& result, const std::string& directory, std::int64_t warmup);

// Of the steps after the first `warmup`. Raises ExitCode::data for an incomplete file, such as that
// of a run that was stopped before its last of `steps`.
[[nodiscard]] RunResult read_time_split(const std::string& path, std::int64_t warmup,
                                        std::int64_t steps);

// Sums of all steps of the run in `directory` until the mean loss of `window` steps is at most
// `target`. Raises ExitCode::data if it never is, naming the minimum, and as above.
[[nodiscard]] RunResult read_to_loss(const std::string& directory, double target,
                                     std::int64_t window);

// `cores`: those that this process may use, for runs on its host, whose ranks may be bound to fewer
// each.
[[nodiscard]] RunPlace read_place(const std::string& directory, int cores);

void save_result(const std::string& path, const RunResult& result);
// Nothing if the file is missing or invalid for a run of `ranks` ranks: torn, of another version,
// negative times, other types. The run is then measured again.
[[nodiscard]] std::optional<RunResult> load_result(const std::string& path, int ranks);

}  // namespace trireme::scale
