// SPDX-License-Identifier: Apache-2.0
// Fits the hardware from which the planner predicts the times of `trireme bench machine`, and
// models of other sizes.
#pragma once

#include <optional>
#include <span>

#include "launch/bench/model/measure.h"

namespace trireme::model_bench {

struct TimedModel {
  Config config;  // of on_one_rank, or the layout of a run
  StepSeconds seconds{};
};

// A transformer layer as wide as GPT-2's smallest, instead of the config's narrower ones: its
// matmuls are large, and its weights exceed caches. Empty for a model that is no smaller, and for
// CNNs, whose convolutions the planner knows at one size only.
[[nodiscard]] std::optional<Config> larger_model(const Config& config);

// Fills in peak_flops of the models' precision, efficiency, memory_bandwidth and launch_seconds, so
// that the planner predicts the passes of all `models`, one or two of one precision, the smaller
// first, and the optimizer of the largest. From two sizes it fits the share of the peak and the
// dimension at which matmuls reach half of it; if there is no such pair, because the small model is
// faster than small matmuls allow, both get the same error.
void calibrate(plan::Hardware& hardware, std::span<const TimedModel> models,
               const MatmulRates& matmuls, double launch);

// Fills in peak_flops of the model's precision, with the efficiencies as they are.
void calibrate_peak(plan::Hardware& hardware, const TimedModel& model);

}  // namespace trireme::model_bench
