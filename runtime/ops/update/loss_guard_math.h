// SPDX-License-Identifier: Apache-2.0
// Written without any product and sum that a compiler could fuse.
#pragma once

#include <cmath>

#include "runtime/base/host_device.h"
#include "runtime/ops/update/loss_guard.h"
#include "runtime/ops/update/loss_sums.h"

namespace trireme::ops {

// sums: (micro-batches, LossSums::count).
TRIREME_HOST_DEVICE inline double mean_loss(const double* sums, std::int64_t micro_batches,
                                            const LossGuardOptions& options) {
  double sum = 0.0;
  for (std::int64_t k = 0; k < micro_batches; ++k) {
    const std::int64_t row = row_of_sums(k, options.order);
    sum += sums[row * LossSums::count + LossSums::loss];
  }
  return sum / counted_targets(sums, micro_batches);
}

// state: LossGuardState. Returns whether the step may change the weights.
TRIREME_HOST_DEVICE inline bool advance_loss_guard(double* state, double loss,
                                                   const LossGuardOptions& options) {
  double& verdict = state[LossGuardState::verdict];
  state[LossGuardState::zscore] = 0.0;
  verdict = static_cast<double>(LossVerdict::non_finite);
  if (!std::isfinite(loss)) return false;
  double& mean = state[LossGuardState::mean];
  double& variance = state[LossGuardState::variance];
  double& seen = state[LossGuardState::seen];
  double distance = seen > 0.0 ? loss - mean : 0.0;
  if (seen == 0.0) mean = loss;
  const double stddev = std::sqrt(variance);
  if (stddev > 0.0) state[LossGuardState::zscore] = distance / stddev;
  const double limit = options.zscore * stddev;
  const bool spike = limit > 0.0 && seen >= options.window && distance > limit;
  if (spike) distance = limit;
  seen += 1.0;
  const double weight = 1.0 / std::fmin(seen, options.window);
  mean = std::fma(weight, distance, mean);
  variance = (1.0 - weight) * std::fma(weight * distance, distance, variance);
  if (spike) state[LossGuardState::spikes] += 1.0;
  verdict = static_cast<double>(spike ? LossVerdict::spike : LossVerdict::accepted);
  return !spike;
}

// The same for the loss of `sums`. A step without a counted target has none.
TRIREME_HOST_DEVICE inline bool guard_step(double* state, const double* sums,
                                           std::int64_t micro_batches,
                                           const LossGuardOptions& options) {
  const double loss = mean_loss(sums, micro_batches, options);
  if (!std::isfinite(loss) || targets_in(sums, micro_batches) > 0.0)
    return advance_loss_guard(state, loss, options);
  state[LossGuardState::zscore] = 0.0;
  state[LossGuardState::verdict] = static_cast<double>(LossVerdict::no_targets);
  return false;
}

}  // namespace trireme::ops
