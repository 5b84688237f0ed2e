// SPDX-License-Identifier: Apache-2.0
// Converts a config to the input of the planner's time models.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "models/registry.h"
#include "runtime/config/config.h"
#include "runtime/plan/layer_work.h"
#include "runtime/plan/step_time.h"

namespace trireme {

// The planner's view of a config's layers: counted on a dry device by the model's own passes
// (runtime/device/work_log.h), so it matches a run.

struct CountedWork {
  std::vector<plan::LayerWork> layers;  // of the whole chain, on one tensor rank
  // Memory traffic per updated parameter, without the norm and the compute copy.
  double optimizer_bytes = 0;
};

// For one micro-batch of a resolved config, on tensor rank 0.
[[nodiscard]] CountedWork count_work(const Config& config);

// Caches layer declarations between layouts that share them.
class StepPlanner {
 public:
  // The step of a resolved config, until the next. Raises ExitCode::config for an impossible
  // schedule.
  [[nodiscard]] const plan::StepInput& input(const Config& config);
  // The same without the counted work, which takes longest.
  [[nodiscard]] const plan::StepInput& declared(const Config& config);

 private:
  // The settings that change declarations in a search: tensor ranks, data ranks that share experts,
  // sequence, recompute, micro-batch, split backward.
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, ContextMode,
                         std::vector<std::int64_t>, std::vector<std::int64_t>, bool, Recompute,
                         std::int64_t, bool>;
  struct Layers {
    plan::StepInput input{};              // of the last layout with them
    double optimizer_bytes = 0;           // counted
    std::map<int, StagePlan> balanced{};  // by virtual stages
  };
  Layers& layers(const Config& config);
  int kind_of(std::vector<ParamSpec> params);

  std::map<Key, Layers> known_;
  std::vector<std::vector<ParamSpec>> kinds_;
  std::vector<double> flops_;  // of one sample, by layer
};

}  // namespace trireme
