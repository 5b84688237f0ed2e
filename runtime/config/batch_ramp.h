// SPDX-License-Identifier: Apache-2.0
// The global batch size of each step when it grows, as a pure function of the step (Smith et al.,
// "Don't Decay the Learning Rate, Increase the Batch Size", 2018; Brown et al., GPT-3, 2020,
// appendix B).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/choices.h"

namespace trireme {

class BatchRamp {
 public:
  // Applies from step `step` (from 0) on.
  struct Point {
    std::int64_t step = 0;
    std::int64_t size = 0;  // global batch in samples
  };
  struct Phase {
    std::int64_t first_step = 0, size = 0;
    std::int64_t samples_before = 0;  // samples of all earlier steps
  };

  // A constant size.
  explicit BatchRamp(std::int64_t size = 1) : phases_{{0, size, 0}} {}
  // The first point must be at step 0; steps and sizes ascend. stepwise: a size holds until the
  // next point. linear: sizes are interpolated and rounded down to multiples of the greatest common
  // divisor of all points' sizes, so they keep every common divisor of these.
  BatchRamp(std::span<const Point> points, RampForm form);

  [[nodiscard]] std::int64_t size_at(std::int64_t step) const { return at(step).size; }
  // Samples of steps [0, step).
  [[nodiscard]] std::int64_t samples_before(std::int64_t step) const;
  // The step of sample number `sample`, counted over all steps.
  [[nodiscard]] std::int64_t step_of(std::int64_t sample) const;
  // Runs of steps of one size.
  [[nodiscard]] std::span<const Phase> phases() const { return phases_; }

 private:
  [[nodiscard]] const Phase& at(std::int64_t step) const;
  void append(std::int64_t step, std::int64_t size);

  std::vector<Phase> phases_;
};

// Parses "STEP:SIZE" texts, sizes in `unit`; writes errors to `problem`.
[[nodiscard]] std::vector<BatchRamp::Point> ramp_points(std::span<const std::string> texts,
                                                        std::string& problem,
                                                        std::string_view unit = "samples");

// Number of different sizes that a ramp with these points may have.
[[nodiscard]] std::int64_t sizes_of(std::span<const BatchRamp::Point> points, RampForm form);

// For a checked config; a constant size if it has no ramp.
struct TrainConfig;
[[nodiscard]] BatchRamp batch_ramp(const TrainConfig& train);
// Whether train.eval_every or train.eval_every_samples asks for an evaluation after `done` steps.
[[nodiscard]] bool evaluation_is_due(const TrainConfig& train, std::int64_t done);
// For a config with train.context_ramp: sequence lengths in tokens instead of samples.
[[nodiscard]] BatchRamp context_ramp(const TrainConfig& train);

}  // namespace trireme
