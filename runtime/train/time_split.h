// SPDX-License-Identifier: Apache-2.0
// Where a step's time went over all ranks, as parts that add up to it. A pure function of what each
// rank measured.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/comm/process_mesh.h"

namespace trireme {

// One step as one rank measured it, in milliseconds.
struct RankStep {
  double period = 0;         // from the end of the step before to the end of this one
  double step = 0;           // the step's work; the rest of the period lies between steps
  double before_reduce = 0;  // from the step's start to its last pass's end
  double comm_wait = 0;      // standing still for collectives
  double bubble = 0;         // standing still for neighbours in the pipeline
  double data_wait = 0;      // standing still for data
};

// Milliseconds, means over the ranks; the six parts add up to `period`.
struct StepSplit {
  std::int64_t step = 0;  // from 1
  double period = 0;
  // Neither of the others: a rank's own work.
  double compute = 0;
  double data_wait = 0;
  // Waits for neighbours, and behind a stage's last pass for the end of the longest stage's.
  double bubble = 0;
  // Waits in collectives for the slowest rank of the same stage: what its compute and data wait
  // take longer than this rank's.
  double straggler = 0;
  // Waits in collectives that none of this explains: the messages themselves.
  double exposed_comm = 0;
  double between_steps = 0;
  // The rank whose own work exceeds the mean of its stage by most.
  int slowest_rank = 0;
};

// `ranks` by rank in `shape`. Ranks begin a step together, for they leave the one before with the
// same gradient norm.
[[nodiscard]] StepSplit split_step(std::int64_t step, const MeshShape& shape,
                                   std::span<const RankStep> ranks);

// One JSON object and a newline; keys end in _ms.
[[nodiscard]] std::string format_json(const StepSplit& split);

}  // namespace trireme
