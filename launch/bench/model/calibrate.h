// SPDX-License-Identifier: Apache-2.0
// From what `trireme bench machine` measured to the hardware from which the planner predicts it,
// and models of other sizes.
#pragma once

#include <optional>
#include <span>

#include "launch/bench/model/measure.h"

namespace trireme::model_bench {

struct TimedModel {
  Config config;  // of on_one_rank, or the layout of a run
  StepSeconds seconds{};
};

// A transformer layer as wide as GPT-2's smallest in place of the config's own narrower ones: its
// matmuls are large, and no cache holds its weights. Empty for a model that is no smaller, and for
// CNNs, whose convolutions the planner knows at one size only.
[[nodiscard]] std::optional<Config> larger_model(const Config& config);

// Fills in peak_flops of the models' precision, efficiency, memory_bandwidth and launch_seconds:
// such that the planner predicts the passes of every one of `models`, one or two of one precision,
// the smaller first, and the optimizer of the largest. Of two sizes it finds the share of the peak
// and the dimension from which matmuls reach half of it; where no such pair exists, since the
// small model is the faster one beyond what small matmuls cost, its error is as large for both.
void calibrate(plan::Hardware& hardware, std::span<const TimedModel> models,
               const MatmulRates& matmuls, double launch);

// Fills in peak_flops of the model's precision, with the efficiencies as they are.
void calibrate_peak(plan::Hardware& hardware, const TimedModel& model);

}  // namespace trireme::model_bench
