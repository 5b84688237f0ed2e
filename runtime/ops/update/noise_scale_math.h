// SPDX-License-Identifier: Apache-2.0
// Private: arithmetic of a measurement, shared by all back ends.
#pragma once

#include <cmath>

#include "runtime/ops/update/loss_sums.h"
#include "runtime/ops/update/noise_scale.h"

namespace trireme::ops {

// The kernel's part of the options.
struct NoiseOperands {
  double small, large, micro_batches, decay, targets;
  const float* loss_scale;  // may be null
  const double* sums;       // may be null
  std::int64_t rows;        // number of sums

  explicit NoiseOperands(const NoiseOptions& options)
      : small(options.small),
        large(options.small * options.micro_batches),
        micro_batches(options.micro_batches),
        decay(options.decay),
        targets(options.targets),
        loss_scale(options.loss_scale.empty() ? nullptr : options.loss_scale.as<float>()),
        sums(options.sums.empty() ? nullptr : options.sums.as<double>()),
        rows(options.sums.empty() ? 0 : options.sums.count() / LossSums::count) {}
};

TRIREME_HOST_DEVICE inline void add_measurement(double* state, const double* squares,
                                                const NoiseOperands& p) {
  double factor = p.loss_scale == nullptr ? 1.0 : 1.0 / static_cast<double>(*p.loss_scale);
  if (p.sums != nullptr) factor *= p.targets / counted_targets(p.sums, p.rows);
  factor *= factor;
  // A micro-batch contributes its mean gradient divided by the number of micro-batches.
  const double of_small = squares[0] * p.micro_batches * factor, of_large = squares[1] * factor;
  if (!std::isfinite(of_small) || !std::isfinite(of_large)) return;
  const double square = (p.large * of_large - p.small * of_small) / (p.large - p.small);
  const double trace = (of_small - of_large) / (1.0 / p.small - 1.0 / p.large);
  state[NoiseState::square] = p.decay * state[NoiseState::square] + (1.0 - p.decay) * square;
  state[NoiseState::trace] = p.decay * state[NoiseState::trace] + (1.0 - p.decay) * trace;
  state[NoiseState::measurements] += 1.0;
  state[NoiseState::last_square] = square;
  state[NoiseState::last_trace] = trace;
}

}  // namespace trireme::ops
