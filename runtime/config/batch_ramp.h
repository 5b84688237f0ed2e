// SPDX-License-Identifier: Apache-2.0
// How many samples each step takes where the global batch grows, as a pure function of the step
// (Smith et al., "Don't Decay the Learning Rate, Increase the Batch Size", 2018; Brown et al.,
// GPT-3, 2020, appendix B).
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
  // From step `step` (from 0) on.
  struct Point {
    std::int64_t step = 0;
    std::int64_t size = 0;  // samples of the global batch
  };
  struct Phase {
    std::int64_t first_step = 0, size = 0;
    std::int64_t samples_before = 0;  // that all steps before it took
  };

  // Every step takes the same.
  explicit BatchRamp(std::int64_t size = 1) : phases_{{0, size, 0}} {}
  // The first point is of step 0, and steps and sizes ascend. stepwise: a size holds until the next
  // point. linear: between two points sizes lie on a line, rounded down to whole multiples of the
  // greatest common divisor of all points' sizes, so that what divides these divides all of them.
  BatchRamp(std::span<const Point> points, RampForm form);

  [[nodiscard]] std::int64_t size_at(std::int64_t step) const { return at(step).size; }
  // That steps [0, step) take.
  [[nodiscard]] std::int64_t samples_before(std::int64_t step) const;
  // The step that takes sample number `sample`, counted over all steps.
  [[nodiscard]] std::int64_t step_of(std::int64_t sample) const;
  // Runs of steps of one size.
  [[nodiscard]] std::span<const Phase> phases() const { return phases_; }

 private:
  [[nodiscard]] const Phase& at(std::int64_t step) const;
  void append(std::int64_t step, std::int64_t size);

  std::vector<Phase> phases_;
};

// Of "STEP:SIZE" texts, sizes in `unit`; what is wrong with them is put into `problem`.
[[nodiscard]] std::vector<BatchRamp::Point> ramp_points(std::span<const std::string> texts,
                                                        std::string& problem,
                                                        std::string_view unit = "samples");

// How many different ones a ramp of these points may have.
[[nodiscard]] std::int64_t sizes_of(std::span<const BatchRamp::Point> points, RampForm form);

// Of a config whose rules were checked; one size where it has no ramp.
struct TrainConfig;
[[nodiscard]] BatchRamp batch_ramp(const TrainConfig& train);
// Of a config with train.context_ramp: tokens of a sequence in the place of samples.
[[nodiscard]] BatchRamp context_ramp(const TrainConfig& train);

}  // namespace trireme
