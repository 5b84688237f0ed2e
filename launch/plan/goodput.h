// SPDX-License-Identifier: Apache-2.0
// Failures, the best checkpoint interval and goodput of a planned run (models in
// runtime/plan/cluster.h).
#pragma once

#include <optional>

#include "launch/plan/report.h"

namespace trireme {

// Seconds. Goodput: time of steps that count / time from the first start to the end.
struct CheckpointPolicy {
  double interval = 0;           // of work between checkpoints
  std::int64_t every_steps = 0;  // the same; 0: no checkpoints
  double goodput = 1;            // expected
  double wall = 0;               // expected, of the whole run
  double failures = 0;           // expected in `wall`
};

// For one run, by quantile of the simulated runs below.
struct Tenths {
  double low = 0, median = 0, high = 0;
};

struct GoodputPlan {
  double mtbf = 0;     // of the job
  double restart = 0;  // of the hardware file
  double save = 0;     // that the run waits for a checkpoint; 0: unknown
  double work = 0;     // the run without failures and checkpoints
  // Nothing if saves are free: then more is better.
  std::optional<CheckpointPolicy> best{};
  CheckpointPolicy configured{};
  // Simulates the best policy, or the configured one: wall seconds and failures of the 10th, 50th
  // and 90th of a hundred runs. Nothing if the run is too long to simulate.
  struct Simulated {
    int runs = 0;
    Tenths wall{}, failures{};
    bool ended = true;  // false: failures came faster than checkpoints
  };
  std::optional<Simulated> simulated{};
};

// Nothing if the hardware file has no failure rate (reliability.mtbf_hours).
[[nodiscard]] std::optional<GoodputPlan> plan_goodput(const LayoutPlan& plan,
                                                      const PlanContext& context);
[[nodiscard]] std::string describe_goodput(const LayoutPlan& plan, const PlanContext& context);

}  // namespace trireme
