// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/engine/state/starting_point.h"

namespace trireme {

struct TrainingRequest {
  std::vector<std::string> command_line;
  std::string requested;  // for config.user.yaml (requested_config.h)
  StartRequest start{};
  bool split_times = false;  // leave time_split.jsonl
  std::int64_t until = 0;    // stop after so many steps, which is no failure; 0: train.steps
};

// Trains as the resolved config says and leaves a run directory: config, environment, metrics,
// checkpoints, weights. A run that has checkpoints goes on from the newest good one. Everything is
// checked before anything is written. Collective over all ranks. False: it stopped before its last
// step, or the one that was asked for, with a checkpoint.
[[nodiscard]] bool run_training(const RankProcess& process, const Config& config,
                                const TrainingRequest& request);

}  // namespace trireme
