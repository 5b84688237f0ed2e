// SPDX-License-Identifier: Apache-2.0
// The status of a run, from its directory.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "launch/run/run_files.h"

namespace trireme::runs {

enum class RunStatus : std::uint8_t {
  missing,   // no such directory, or no run in it
  starting,  // no step yet
  running,
  stale,     // no line for much longer than a step
  finished,  // all steps are done, or those of --until, or train.stop_at is reached
  stopped,   // with a checkpoint, to be continued
  failed,    // with an error
  ended      // unknown end: killed, or its host is gone
};
[[nodiscard]] std::string_view name_of(RunStatus status);
// It will not continue by itself, and did not end as requested.
[[nodiscard]] bool went_wrong(RunStatus status);

struct RunSigns {
  std::string directory{};
  bool has_metrics = false;
  double age = 0;                // seconds since metrics.jsonl was written
  std::int64_t step = 0;         // the last one; 0: none yet
  std::int64_t steps = 0;        // train.steps; 0: unknown
  bool came_to_its_end = false;  // in the last start, from ranks.jsonl
  std::string reached{};         // the target that ended it, from there too
  double step_ms = std::numeric_limits<double>::quiet_NaN();  // recently
  double evaluation_seconds = 0;                              // of the last one
  bool on_this_host = false;                                  // its last start was on this host
};

struct RunStanding {
  RunStatus status = RunStatus::missing;
  std::string text{};     // why or since when, and how to continue; may be empty
  std::string log_end{};  // log_end_of()
  std::optional<StoredCheckpoint> checkpoint{};  // the newest
};
[[nodiscard]] RunStanding judge(const RunSigns& signs);

}  // namespace trireme::runs
