// SPDX-License-Identifier: Apache-2.0
// The update of one element, shared by every back end. A step whose gradient scale is 0 (see
// clip_scale) must be skipped by the caller: 0 * infinity would poison the moments.
#pragma once

#include <cmath>

#include "runtime/base/philox.h"
#include "runtime/ops/update/optimizer_update.h"

namespace trireme::ops {

struct AdamWStep {
  float beta1, beta2, epsilon, decay;
  float rest1, rest2;            // 1 - beta
  float inverse_c1, inverse_c2;  // of the bias corrections
  float learning_rate, gradient_scale;

  TRIREME_HOST_DEVICE AdamWStep(const AdamWOptions& options, const float* scalars)
      : beta1(options.beta1),
        beta2(options.beta2),
        epsilon(options.epsilon),
        decay(options.weight_decay),
        rest1(1.0F - options.beta1),
        rest2(1.0F - options.beta2),
        inverse_c1(1.0F / scalars[StepScalars::bias_correction1]),
        inverse_c2(1.0F / scalars[StepScalars::bias_correction2]),
        learning_rate(scalars[StepScalars::learning_rate]),
        gradient_scale(scalars[StepScalars::gradient_scale]) {}

  // Returns the new parameter; updates the moments.
  TRIREME_HOST_DEVICE float operator()(float p, float& m, float& v, float gradient) const {
    const float g = gradient * gradient_scale;
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * (g * g);
    const float direction = (m * inverse_c1) / (std::sqrt(v * inverse_c2) + epsilon);
    return p - learning_rate * (direction + decay * p);
  }
};

struct LionStep {
  float beta1, beta2, rest1, rest2, decay, learning_rate, gradient_scale;

  TRIREME_HOST_DEVICE LionStep(const LionOptions& options, const float* scalars)
      : beta1(options.beta1),
        beta2(options.beta2),
        rest1(1.0F - options.beta1),
        rest2(1.0F - options.beta2),
        decay(options.weight_decay),
        learning_rate(scalars[StepScalars::learning_rate]),
        gradient_scale(scalars[StepScalars::gradient_scale]) {}

  TRIREME_HOST_DEVICE float operator()(float p, float& m, float gradient) const {
    const float g = gradient * gradient_scale;
    const float mixed = beta1 * m + rest1 * g;
    const float sign = (mixed > 0.0F ? 1.0F : 0.0F) - (mixed < 0.0F ? 1.0F : 0.0F);
    m = beta2 * m + rest2 * g;
    return p - learning_rate * (sign + decay * p);
  }
};

struct SgdStep {
  float momentum, decay, learning_rate, gradient_scale;
  // What g and b contribute to the step: (1, momentum) for Nesterov, else (0, 1).
  float gradient_weight, buffer_weight;

  TRIREME_HOST_DEVICE SgdStep(const SgdOptions& options, const float* scalars)
      : momentum(options.momentum),
        decay(options.weight_decay),
        learning_rate(scalars[StepScalars::learning_rate]),
        gradient_scale(scalars[StepScalars::gradient_scale]),
        gradient_weight(options.nesterov ? 1.0F : 0.0F),
        buffer_weight(options.nesterov ? options.momentum : 1.0F) {}

  TRIREME_HOST_DEVICE float operator()(float p, float& b, float gradient) const {
    const float g = gradient * gradient_scale + decay * p;
    b = momentum * b + g;
    return p - learning_rate * (gradient_weight * g + buffer_weight * b);
  }
  // Without momentum.
  TRIREME_HOST_DEVICE float operator()(float p, float gradient) const {
    float none = 0.0F;
    return (*this)(p, none, gradient);
  }
};

struct Clip {
  float norm;            // of the gradients without their loss scale
  float gradient_scale;  // takes the loss scale off and clips; 0 = skip the step

  TRIREME_HOST_DEVICE Clip(double sum_of_squares, float limit, float loss_scale)
      : norm(static_cast<float>(std::sqrt(sum_of_squares) / static_cast<double>(loss_scale))),
        gradient_scale((limit > 0.0F && norm > limit ? limit / norm : 1.0F) / loss_scale) {
    if (!std::isfinite(norm)) gradient_scale = 0.0F;
  }
};

// state: LossScaleState.
TRIREME_HOST_DEVICE inline void advance_loss_scale(float* state, bool skipped,
                                                   const LossScaleOptions& options) {
  float& scale = state[LossScaleState::scale];
  float& good = state[LossScaleState::good_steps];
  if (skipped) {
    scale = std::fmax(scale / options.factor, options.minimum);
    state[LossScaleState::skipped_steps] += 1.0F;
    good = 0.0F;
    return;
  }
  good += 1.0F;
  if (good < options.growth_interval) return;
  scale = std::fmin(scale * options.factor, LossScaleOptions::maximum);
  good = 0.0F;
}

}  // namespace trireme::ops
