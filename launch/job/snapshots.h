// SPDX-License-Identifier: Apache-2.0
// Occasional observations between two steps, by the keys of `telemetry`: histograms of weights,
// gradients and activations, weights without gradient, sample outputs.
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
  // After Engine::begin(). `reporter`: rank 0's, else null. Both must outlive this. Collective.
  Snapshots(Engine& engine, Reporter* reporter);

  // After `done` steps, the last of which may still run. Collective.
  void take(std::int64_t done);

 private:
  void look_for_dead(std::int64_t done);

  Engine& engine_;
  Reporter* reporter_;
  std::optional<ValueCounts> counts_;
  const Dataset* sampled_ = nullptr;   // null: none
  std::vector<std::string> suspects_;  // without gradient in the previous step
  std::vector<std::string> told_;
};

}  // namespace trireme
