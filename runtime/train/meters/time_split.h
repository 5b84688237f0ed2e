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
#include "runtime/telemetry/verdict/rank_times.h"

namespace trireme {

// Reads of one file, by a number that stands for its path; 0: of none.
struct FileReads {
  std::uint64_t file = 0;
  double seconds = 0, bytes = 0;  // of all threads together
};

// 64 bits among numbers that travel as f64.
struct ToldBits {
  double high = 0, low = 0;

  ToldBits() = default;
  explicit ToldBits(std::uint64_t bits)
      : high(static_cast<double>(bits >> 32U)), low(static_cast<double>(bits & 0xffffffffU)) {}
  [[nodiscard]] std::uint64_t bits() const {
    return (static_cast<std::uint64_t>(high) << 32U) + static_cast<std::uint64_t>(low);
  }
};

// One step as one rank measured it, in milliseconds.
struct RankStep {
  double period = 0;         // from the end of the step before to the end of this one
  double step = 0;           // the step's work; the rest of the period lies between steps
  double before_reduce = 0;  // from the step's start to its last pass's end
  double comm_wait = 0;      // standing still for collectives
  double bubble = 0;         // standing still for neighbours in the pipeline
  double data_wait = 0;      // standing still for data
  double forward = 0, backward = 0, optimizer = 0;  // without standing still
  // On a CPU: threads of this rank had no core, in its own work, for its messages, for its data, or
  // between steps. The last is the part of between() that is this.
  double core_wait = 0, between_core_wait = 0;
  double reduce = 0;       // gradients were reduced, behind backward or exposed
  double reduce_wait = 0;  // of comm_wait: the exposed part of that
  // Of comm_wait too: for sums of tensor groups in the passes, and for parameters.
  double tensor_wait = 0, gather_wait = 0;
  // Waits of any thread for the messages of peers' collectives, hidden ones included: the rank that
  // others wait for has least. 0 where the back end cannot tell.
  double message_wait = 0;
  double checkpoint = 0, evaluation = 0;  // of the time before the step
  // Energy that this rank counts (StepOptions::joules) since the step before; NaN: not known.
  double joules = 0;
  double other_core_wait = 0;  // of core_wait: in no pass
  double comm_core_wait = 0;   // of that: for messages
  // No times, but told with them: this rank's part of the digest of the weights, and where it
  // waited for data, the file whose reads took longest since it told of one.
  ToldBits digest{}, slow_file{};
  double read_seconds = 0, read_bytes = 0;
  double micro_batches = 0;  // that this rank's pipeline holds

  // Between the step before and this one.
  [[nodiscard]] double between() const { return period - step; }
  // What holds other ranks up within the step.
  [[nodiscard]] double own_work() const { return step - comm_wait - bubble; }
};

// Milliseconds, means over the ranks; the six parts add up to `period`. A job of one rank waits in
// no collective.
struct StepSplit {
  std::int64_t step = 0;  // from 1
  double period = 0;
  // Neither of the others: a rank's own work.
  double compute = 0;
  // Waits for data, and in collectives for a rank of the same stage that waited for its data.
  double data_wait = 0;
  // Waits for neighbours, and behind a stage's last pass for the end of the longest stage's.
  double bubble = 0;
  // Waits in collectives for the slowest rank of the same stage: what its work takes longer than
  // this rank's.
  double straggler = 0;
  // Waits in collectives that none of this explains: the messages themselves.
  double exposed_comm = 0;
  // Of exposed_comm: the sums of tensor groups, parameters, the exposed part of the reduction of
  // gradients; the rest is that of norms.
  double tensor_comm = 0, gather_comm = 0, reduce_comm = 0;
  double between_steps = 0;
  double checkpoint = 0, evaluation = 0;  // of between_steps
  // Four that add up to `compute`.
  double forward = 0, backward = 0, optimizer = 0, other = 0;
  double core_wait = 0;             // of `compute` and `between_steps`: processes had no core
  double other_core_wait = 0;       // of that: in `other` or between steps
  double core_straggler = 0;        // of `straggler`: behind ranks that had none
  double checkpoint_straggler = 0;  // of `straggler`: behind ranks whose checkpoint took longer
  double reduce = 0, reduce_wait = 0;
  // The rank whose own work exceeds the mean of its stage by most.
  int slowest_rank = 0;
};

// Of all ranks; nothing where one does not know, or nobody counts.
[[nodiscard]] std::optional<double> joules_of(std::span<const RankStep> ranks);

// `ranks` by rank in `shape`. Ranks begin a step together, for they leave the one before with the
// same gradient norm.
[[nodiscard]] StepSplit split_step(std::int64_t step, const MeshShape& shape,
                                   std::span<const RankStep> ranks);

// Adds one step to what ranks.jsonl tells of each rank, `sums` by rank.
void add_to(std::span<RankTimes> sums, const MeshShape& shape, std::span<const RankStep> ranks);

// One JSON object and a newline; keys end in _ms.
[[nodiscard]] std::string format_json(const StepSplit& split);

}  // namespace trireme
