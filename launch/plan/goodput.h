// SPDX-License-Identifier: Apache-2.0
// How a planned run fares where ranks fail: failures, the best checkpoint interval, goodput
// (runtime/plan/cluster.h has the models).
#pragma once

#include <optional>

#include "launch/plan/report.h"

namespace trireme {

// Seconds. Goodput: time of steps that count / time from the first start to the end.
struct CheckpointPolicy {
  double interval = 0;           // of work between checkpoints
  std::int64_t every_steps = 0;  // the same; 0: the run saves nothing
  double goodput = 1;            // expected
  double wall = 0;               // expected, of the whole run
  double failures = 0;           // expected in that time
};

// Of one run, by the share of simulated runs that were below.
struct Tenths {
  double low = 0, median = 0, high = 0;
};

struct GoodputPlan {
  double mtbf = 0;     // of the job
  double restart = 0;  // of the hardware file
  double save = 0;     // the run stands still so long for a checkpoint; 0: not known
  double work = 0;     // the run without failures and checkpoints
  // Nothing where saves are free: then the more the better.
  std::optional<CheckpointPolicy> best{};
  CheckpointPolicy configured{};
  // The best policy, else the configured one, simulated: wall seconds and failures of the tenth,
  // the middle and the ninetieth of a hundred runs. Nothing where the run is too long to simulate.
  struct Simulated {
    int runs = 0;
    Tenths wall{}, failures{};
    bool ended = true;  // false: failures came faster than checkpoints
  };
  std::optional<Simulated> simulated{};
};

// Nothing where the hardware file says nothing of failures (reliability.mtbf_hours).
[[nodiscard]] std::optional<GoodputPlan> plan_goodput(const LayoutPlan& plan,
                                                      const PlanContext& context);
[[nodiscard]] std::string describe_goodput(const LayoutPlan& plan, const PlanContext& context);

}  // namespace trireme
