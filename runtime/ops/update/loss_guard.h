// SPDX-License-Identifier: Apache-2.0
// Whether a step's loss may change the weights, decided on the device before the update.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// Layout of the guard's state: f64, LossGuardState::count elements on the device. All zero before
// the first step.
struct LossGuardState {
  enum Index : int {
    mean,  // of the losses of the last `window` steps, newer ones weighing more
    variance,
    seen,     // finite losses of the whole run
    spikes,   // steps of the whole run that were left out for their loss
    zscore,   // of the last loss from the mean before it; 0 where there was none
    verdict,  // LossVerdict of the last step
    count
  };
};

enum class LossVerdict : int { accepted, non_finite, spike };

struct LossGuardOptions {
  double zscore = 0;  // more standard deviations above the mean are a spike; 0 = nothing is
  double window = 1;  // steps that mean and variance cover, and before which nothing is a spike
  // `sums` holds the micro-batches of this many ranks one rank after another, and a rank's k-th is
  // number k * interleave + rank of the global batch; 1: they are in order.
  std::int64_t interleave = 1;
};

// sums(micro-batches, LossSums::count) f64, added up in the order of the global batch; the loss is
// their mean over the targets that count. A loss that is not finite, or a spike, sets
// scalars[StepScalars::gradient_scale] to 0, with which the update leaves everything as it is. A
// finite loss then enters mean and variance; a spike's with the largest value that would have been
// none, so that one outlier does not blind the rule and a new level is accepted after some steps.
// The same bits on every back end.
void guard_loss(Stream& stream, const Tensor& scalars, const Tensor& state, const Tensor& sums,
                const LossGuardOptions& options);

}  // namespace trireme::ops
