// SPDX-License-Identifier: Apache-2.0
// What one run of a study came to, and the file that keeps it for --resume.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trireme::scale {

// Seconds per step: means over the ranks and the steps that count, from a run's time_split.jsonl
// (time_split.h has the definitions). The parts add up to `period`.
struct StepParts {
  double period = 0;
  double compute = 0;  // with what lies between steps
  double data_wait = 0, bubble = 0, straggler = 0, exposed_comm = 0;
};

struct RunResult {
  std::uint64_t command = 0;  // checksum of what was run
  int code = 0;
  std::string error;  // last line of the log of a run that failed
  StepParts parts{};
  int slowest_rank = 0;  // that was so in most steps
};

// Of the steps after the first `warmup`. Raises ExitCode::data for a file that is not whole.
[[nodiscard]] RunResult read_time_split(const std::string& path, std::int64_t warmup);

// The last line that says something, of an error the whole of its first line.
[[nodiscard]] std::string last_words(const std::string& log);

void save_result(const std::string& path, const RunResult& result);
// Empty where there is no such file, or only a torn one.
[[nodiscard]] std::optional<RunResult> load_result(const std::string& path);

}  // namespace trireme::scale
