// SPDX-License-Identifier: Apache-2.0
// Splits a step's time over all ranks into parts that add up to it. Pure functions of each rank's
// measurements.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/process_mesh.h"
#include "runtime/nn/expert_meter.h"
#include "runtime/telemetry/health/gpu_state.h"
#include "runtime/telemetry/times.h"

namespace trireme {

// Reads of one file, with a number for its path; 0: none.
struct FileReads {
  std::uint64_t file = 0;
  double seconds = 0, bytes = 0;  // over all threads
};

// One rank's measurements of a step; ranks exchange it as bytes.
struct RankStep {
  // Milliseconds; forward, backward and optimizer exclude time spent waiting. On a CPU core_wait is
  // the time that threads of this rank had no core: for its own work, messages, data, or between
  // steps.
  Times times{};
  // Energy counted by this rank (launch/engine/rank_meter.h) since the previous step; NaN:
  // unknown.
  double joules = 0;
  GpuState gpu{};            // of this rank's GPU
  std::uint64_t digest = 0;  // this rank's part of the digest of the weights
  ExpertCounts experts{};
  FileReads slow_file{};  // if it waited for data: the file with the longest reads since
};

// Means over the ranks, in milliseconds; those of time_use::split except core_wait and
// core_straggler add up to period. A job of one rank never waits in a collective.
struct StepSplit {
  std::int64_t step = 0;  // from 1
  Times times{};
  // The rank whose own work exceeds its stage's mean most.
  int slowest_rank = 0;

  [[nodiscard]] double operator[](TimePart part) const { return times[part]; }
};

// Over all ranks; nothing if one does not know, or none counts.
[[nodiscard]] std::optional<double> joules_of(std::span<const RankStep> ranks);

// `ranks` by rank in `shape`. Ranks begin a step together, because they end the previous one with
// the same gradient norm.
[[nodiscard]] StepSplit split_step(std::int64_t step, const MeshShape& shape,
                                   std::span<const Times> ranks);

// Adds a step to each rank's sums for ranks.jsonl, `sums` by rank.
void add_to(std::span<Times> sums, const MeshShape& shape, std::span<const Times> ranks);

// One JSON object and a newline; keys end in _ms.
[[nodiscard]] std::string format_json(const StepSplit& split);

}  // namespace trireme
