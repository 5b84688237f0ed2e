// SPDX-License-Identifier: Apache-2.0
// What a run looks at between two of its steps now and then, by the keys of `telemetry`: how
// weights, gradients and activations are spread, weights without gradient, samples of what the
// model has learned.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/engine/engine.h"
#include "launch/job/model_samples.h"
#include "launch/job/run_report.h"
#include "runtime/train/meters/value_counts.h"

namespace trireme {

class Snapshots {
 public:
  // Behind Engine::begin(). `reporter`: rank 0's, else null. Both outlive this. Collective.
  Snapshots(Engine& engine, Reporter* reporter);

  // Behind `done` steps, of which the last may still be under way. Collective.
  void take(std::int64_t done);

 private:
  void look_for_dead(std::int64_t done);

  Engine& engine_;
  Reporter* reporter_;
  std::optional<ValueCounts> counts_;
  const Dataset* sampled_ = nullptr;   // null: none
  std::vector<std::string> suspects_;  // without gradient in the step before
  std::vector<std::string> told_;
};

}  // namespace trireme
