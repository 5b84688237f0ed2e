// SPDX-License-Identifier: Apache-2.0
// What one run of a study came to, and the file that keeps it for --resume.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/telemetry/times.h"

namespace trireme::scale {

// Where and when a run was, as its environment.json tells. Of a run without one, or of an older
// study: nothing.
struct RunPlace {
  std::vector<std::string> hosts{};  // each once, in the order of their first ranks
  int ranks_per_host = 0;            // on the fullest
  std::string cpu{};                 // of the first host
  int cores = 0;                     // that its ranks may use together
  std::string device{};              // "cpu" or "cuda"
  std::string started{};             // UTC, ISO 8601
  // More ranks on a host than cores: they take turns. Ranks with GPUs do not.
  [[nodiscard]] bool shares_cores() const {
    return device == "cpu" && cores > 0 && ranks_per_host > cores;
  }
};

struct RunResult {
  std::uint64_t command = 0;  // checksum of what was run
  int code = 0;
  std::string error;  // last line of the log of a run that failed
  // Seconds per step: means over the ranks and the steps that count, by the parts of the run's
  // time_split.jsonl, with what lies between steps as a part of compute. core_wait lies within the
  // others, which add up to the period.
  Times parts{};
  // 0: the parts are of a step; else the sums of so many, up to the loss that was to be reached.
  std::int64_t steps_to_loss = 0;
  int slowest_rank = 0;  // that was so in most steps
  RunPlace place{};
  // Of all hosts together, a mean over the steps that count (to a loss: of all); nothing where it
  // was not counted in all of them.
  std::optional<double> joules_per_step{};
  std::string certificate{};   // the chain's last digest (certificate.jsonl): equal for equal runs
  std::string command_line{};  // as started
  int turn = 0;                // in its repeat's order, from 1
};

// Fills in what metrics.jsonl and certificate.jsonl of the run in `directory` tell.
void read_records(RunResult& result, const std::string& directory, std::int64_t warmup);

// Of the steps after the first `warmup`. Raises ExitCode::data for a file that is not whole, such
// as that of a run that was stopped before its last of `steps`.
[[nodiscard]] RunResult read_time_split(const std::string& path, std::int64_t warmup,
                                        std::int64_t steps);

// Sums of all steps of the run in `directory` until the mean loss of `window` steps is no more than
// `target`. Raises ExitCode::data where none is, naming the least, and as above.
[[nodiscard]] RunResult read_to_loss(const std::string& directory, double target,
                                     std::int64_t window);

// Of the run in `directory`. `cores`: that this process may use, for runs on its host, whose ranks
// may be bound to fewer each.
[[nodiscard]] RunPlace read_place(const std::string& directory, int cores);

// The last line that says something, of an error the whole of its first line.
[[nodiscard]] std::string last_words(const std::string& log);

void save_result(const std::string& path, const RunResult& result);
// Empty where there is no such file, or one that no run of `ranks` ranks can have left: torn, of
// another version, times below 0 or no numbers. The run is measured again then.
[[nodiscard]] std::optional<RunResult> load_result(const std::string& path, int ranks);

}  // namespace trireme::scale
