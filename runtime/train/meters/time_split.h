// SPDX-License-Identifier: Apache-2.0
// Where a step's time went over all ranks, as parts that add up to it. Pure functions of what each
// rank measured.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/process_mesh.h"
#include "runtime/telemetry/times.h"

namespace trireme {

// Reads of one file, by a number that stands for its path; 0: of none.
struct FileReads {
  std::uint64_t file = 0;
  double seconds = 0, bytes = 0;  // of all threads together
};

// What one rank tells the others of a step; ranks send it to each other as bytes.
struct RankStep {
  // Milliseconds; waits that hold nobody up (forward, backward, optimizer) are without standing
  // still. On a CPU core_wait is what threads of this rank lacked a core for: in its own work, for
  // its messages, for its data, or between steps.
  Times times{};
  // Energy that this rank counts (StepOptions::joules) since the step before; NaN: not known.
  double joules = 0;
  std::uint64_t digest = 0;  // this rank's part of the digest of the weights
  FileReads slow_file{};     // where it waited for data: the file whose reads took longest since
};

// Means over the ranks, in milliseconds; those of time_use::split but core_wait add up to period.
// A job of one rank waits in no collective.
struct StepSplit {
  std::int64_t step = 0;  // from 1
  Times times{};
  // The rank whose own work exceeds the mean of its stage by most.
  int slowest_rank = 0;

  [[nodiscard]] double operator[](TimePart part) const { return times[part]; }
};

// Of all ranks; nothing where one does not know, or nobody counts.
[[nodiscard]] std::optional<double> joules_of(std::span<const RankStep> ranks);

// `ranks` by rank in `shape`. Ranks begin a step together, for they leave the one before with the
// same gradient norm.
[[nodiscard]] StepSplit split_step(std::int64_t step, const MeshShape& shape,
                                   std::span<const Times> ranks);

// Adds one step to what ranks.jsonl tells of each rank, `sums` by rank.
void add_to(std::span<Times> sums, const MeshShape& shape, std::span<const Times> ranks);

// One JSON object and a newline; keys end in _ms.
[[nodiscard]] std::string format_json(const StepSplit& split);

}  // namespace trireme
