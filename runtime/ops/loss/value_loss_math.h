// SPDX-License-Identifier: Apache-2.0
// Private: one value's loss, shared by all back ends.
#pragma once

#include <cmath>

#include "runtime/base/host_device.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/loss/value_loss.h"

namespace trireme::ops {

struct LossOfValue {
  float loss = 0.0F, slope = 0.0F;
};

// `error`: prediction - target, finite.
TRIREME_HOST_DEVICE inline LossOfValue loss_of_value(float error, const ValueLossOptions& options) {
  const float size = std::fabs(error);
  const float sign = error > 0.0F ? 1.0F : error < 0.0F ? -1.0F : 0.0F;
  const float delta = options.delta;
  switch (options.kind) {
    case ValueLossKind::mse:
      return {error * error, 2.0F * error};
    case ValueLossKind::mae:
      return {size, sign};
    case ValueLossKind::binary:
      break;
    case ValueLossKind::huber:
      if (size <= delta) return {0.5F * error * error, error};
      return {delta * (size - 0.5F * delta), delta * sign};
  }
  return {};
}

// In doubles, whose exp and log agree between back ends after rounding.
TRIREME_HOST_DEVICE inline LossOfValue binary_loss(float logit, float target, float& error) {
  const double x = logit, small = std::exp(-std::fabs(x));
  const double chance = (x >= 0 ? 1.0 : small) / (1.0 + small);
  error = static_cast<float>(chance - target);
  return {static_cast<float>((x > 0 ? x : 0.0) - x * target + std::log1p(small)), error};
}

template <typename T>
struct ValueLosses {
  float* losses;
  float* errors;  // may be null
  T* predictions;
  const float* targets;
  std::int64_t columns;
  ValueLossOptions options;

  TRIREME_HOST_DEVICE void run(std::int64_t i) const {
    const float target = targets[i];
    LossOfValue result;
    float error = 0.0F;
    if (target == target) {
      error = load(predictions[i]) - target;
      error += error - error;  // NaN unless finite
      if (options.kind == ValueLossKind::binary && error == error)
        result = binary_loss(load(predictions[i]), target, error);
      else
        result = loss_of_value(error, options);
      if (error != error) result = {error, error};
    }
    const float weight = options.weights == nullptr ? 1.0F : options.weights[i / columns];
    losses[i] = weight * result.loss;
    if (errors != nullptr) errors[i] = std::fabs(error);
    if (options.write_gradient) store(predictions[i], scale() * weight * result.slope);
  }
  // Read when it runs, because the loss scale changes between replays of a captured step.
  [[nodiscard]] TRIREME_HOST_DEVICE float scale() const {
    const float* const factor = options.loss_scale;
    return factor == nullptr ? options.gradient_scale : options.gradient_scale * *factor;
  }
};

template <typename T>
TRIREME_HOST_DEVICE void run_value_loss(std::int64_t i, const ValueLosses<T>& work) {
  work.run(i);
}

template <typename T>
[[nodiscard]] ValueLosses<T> value_losses(const Tensor& losses, const Tensor& errors,
                                          const Tensor& predictions, const Tensor& targets,
                                          const ValueLossOptions& options) {
  return {losses.as<float>(),   errors.empty() ? nullptr : errors.as<float>(),
          predictions.as<T>(),  targets.as<float>(),
          predictions.shape[1], options};
}

}  // namespace trireme::ops
