// SPDX-License-Identifier: Apache-2.0
// Decides on the device, before the update, whether a step's loss may change the weights.
#pragma once

#include "runtime/device/device.h"
#include "runtime/ops/update/loss_sums.h"

namespace trireme::ops {

// Layout of the guard's state: f64, LossGuardState::count elements on the device. All zero before
// the first step.
struct LossGuardState {
  enum Index : int {
    mean,  // of the last `window` losses, with exponential weights
    variance,
    seen,     // finite losses of the whole run
    spikes,   // steps of the whole run skipped for their loss
    zscore,   // of the last loss against the previous mean; 0 if there was none
    verdict,  // LossVerdict of the last step
    count
  };
};

enum class LossVerdict : int { accepted, non_finite, spike, no_targets };

struct LossGuardOptions {
  double zscore = 0;  // a spike is more standard deviations above the mean; 0 = off
  double window = 1;  // steps in mean and variance; earlier steps are never spikes
  SumsOrder order{};  // of `sums`; by default that of the global batch
};

// sums(micro-batches, LossSums::count) f64, added in global batch order; the loss is their mean
// over the counted targets. A non-finite loss, a spike or no counted target sets
// scalars[StepScalars::gradient_scale] to 0, with which the update changes nothing, not even by
// weight decay. A finite loss then updates mean and variance; a spike is clipped to the spike
// threshold first, so one outlier does not blind the rule and a new level is accepted after some
// steps. Bitwise identical on every back end.
void guard_loss(Stream& stream, const Tensor& scalars, const Tensor& state, const Tensor& sums,
                const LossGuardOptions& options);

}  // namespace trireme::ops
