// SPDX-License-Identifier: Apache-2.0
// Converts a config to the input of the planner's time models.
#pragma once

#include <map>
#include <tuple>

#include "launch/plan/counted_work.h"
#include "models/registry.h"
#include "runtime/plan/step_time.h"

namespace trireme {

// Caches layer declarations between layouts that share them.
class StepPlanner {
 public:
  // `counts_work`: for GPUs; not needed for FLOPs alone.
  explicit StepPlanner(bool counts_work = true) : counts_work_(counts_work) {}
  // The step of a resolved config. Raises ExitCode::config for an impossible schedule.
  [[nodiscard]] plan::StepInput input(const Config& config);

 private:
  // The settings that change declarations in a search: tensor ranks, sequence, recompute,
  // micro-batch, split backward.
  using Key = std::tuple<std::int64_t, bool, Recompute, std::int64_t, bool>;
  struct Layers {
    std::vector<LayerSummary> declared{};
    CountedWork counted{};  // on GPUs
  };
  const Layers& layers(const Config& config);

  bool counts_work_;
  std::map<Key, Layers> known_;
};

}  // namespace trireme
