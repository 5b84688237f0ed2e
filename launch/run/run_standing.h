// SPDX-License-Identifier: Apache-2.0
// How a run stands, by what its directory holds.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "launch/run/run_files.h"

namespace trireme::runs {

enum class RunStatus : std::uint8_t {
  missing,   // no such directory, or nothing of a run in it
  starting,  // no step yet
  running,
  stale,     // no line for much longer than a step takes
  finished,  // all steps done, or those that --until asked for
  stopped,   // with a checkpoint, to go on
  failed,    // with an error
  ended      // it does not say why: killed, or its host is gone
};
[[nodiscard]] std::string_view name_of(RunStatus status);
// Nothing more comes of it by itself, and it is not what was asked for.
[[nodiscard]] bool went_wrong(RunStatus status);

struct RunSigns {
  std::string directory{};
  bool has_metrics = false;
  double age = 0;                // seconds since metrics.jsonl was written
  std::int64_t step = 0;         // the last one; 0: none yet
  std::int64_t steps = 0;        // train.steps; 0: not known
  bool came_to_its_end = false;  // as ranks.jsonl says of the last start
  double step_ms = std::numeric_limits<double>::quiet_NaN();  // lately
  double evaluation_seconds = 0;                              // the last one took
  bool on_this_host = false;                                  // its last start was
};

struct RunStanding {
  RunStatus status = RunStatus::missing;
  std::string text{};     // why, or since when, and how to go on; may be empty
  std::string log_end{};  // log_end_of()
  std::optional<StoredCheckpoint> checkpoint{};  // the newest
};
[[nodiscard]] RunStanding judge(const RunSigns& signs);

}  // namespace trireme::runs
