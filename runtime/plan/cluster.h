// SPDX-License-Identifier: Apache-2.0
// Simulates a long run on many ranks: every step ends with its slowest rank, failures are random,
// and work since the last checkpoint is repeated. Pure functions; the same seed gives the same run.
#pragma once

#include <cstdint>

#include "runtime/plan/step_time.h"

namespace trireme::plan {

struct RunOptions {
  int ranks = 1;
  std::int64_t steps = 10000;
  std::int64_t checkpoint_every = 0;  // steps; 0 = never: a failure restarts from the beginning
  double checkpoint_seconds = 0;      // that the run waits for one
  std::uint64_t seed = 1234;
};

// Seconds. The parts add up to `wall`.
struct RunEstimate {
  double wall = 0;
  double useful = 0;  // steps that were kept, stragglers included
  double checkpoints = 0;
  double lost = 0;  // work since the last checkpoint before each failure
  double restarts = 0;
  std::int64_t failures = 0;
  double mean_step = 0;  // useful / steps
  double goodput = 1;    // useful / wall
  bool ended = true;     // false: failures came faster than checkpoints, and the simulation gave up
};

// Time between failures of the whole job is exponential with mean mtbf / ranks; a failed restart
// fails again. A step takes the estimate without its straggler share, plus the largest of `ranks`
// normal deviations (drawn from the distribution of the maximum, so 16,384 ranks cost no more than
// one).
[[nodiscard]] RunEstimate simulate_run(const StepEstimate& step, const Hardware& hardware,
                                       const RunOptions& options);

// Time of a checkpoint of `parameters` elements (fp32 weights and two moments) when all ranks write
// their share.
[[nodiscard]] double checkpoint_seconds(double parameters, int ranks, const Hardware& hardware);

// Seconds of work between checkpoints. `mtbf`: of the job.
struct CheckpointIntervals {
  double young = 0;  // sqrt(2 cost mtbf) (Young, 1974)
  double daly = 0;   // its higher-order form (Daly, 2006, equation 37)
  double best = 0;   // least expected wall time (Daly, 2006, equation 20), found numerically
};
[[nodiscard]] CheckpointIntervals checkpoint_intervals(double cost, double mtbf, double restart);
// Daly's expected useful / wall for work in pieces of `interval` seconds.
[[nodiscard]] double expected_goodput(double interval, double cost, double mtbf, double restart);
// Seconds between failures of a job; infinite if hardware never fails.
[[nodiscard]] double job_mtbf_seconds(const Hardware& hardware, int ranks);

// The quantile of the standard normal distribution, 0 < probability < 1.
[[nodiscard]] double normal_quantile(double probability);
// Expected largest of `count` independent standard normal variables (Blom, 1958: within 1 %).
[[nodiscard]] double expected_largest(double count);

}  // namespace trireme::plan
