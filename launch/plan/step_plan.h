// SPDX-License-Identifier: Apache-2.0
// From a config to what the planner's models of time read.
#pragma once

#include <map>
#include <tuple>

#include "launch/plan/counted_work.h"
#include "models/registry.h"
#include "runtime/plan/step_time.h"

namespace trireme {

// Remembers the layers' declarations between layouts that share them.
class StepPlanner {
 public:
  // `counts_work`: of GPUs; what only asks for FLOPs does without.
  explicit StepPlanner(bool counts_work = true) : counts_work_(counts_work) {}
  // The step of a resolved config. Raises ExitCode::config for a schedule that cannot be.
  [[nodiscard]] plan::StepInput input(const Config& config);

 private:
  // What declarations depend on, in one search: tensor ranks, sequence, recompute, micro-batch,
  // split backward.
  using Key = std::tuple<std::int64_t, bool, Recompute, std::int64_t, bool>;
  struct Layers {
    std::vector<LayerSummary> declared{};
    CountedWork counted{};  // of GPUs
  };
  const Layers& layers(const Config& config);

  bool counts_work_;
  std::map<Key, Layers> known_;
};

}  // namespace trireme
