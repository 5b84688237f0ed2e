// SPDX-License-Identifier: Apache-2.0
// The loss of predicted values. Overwrites the predictions with their gradient, like cross_entropy.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// Of a prediction's error e.
enum class ValueLossKind : std::uint8_t {
  mse,    // e^2
  mae,    // |e|; its gradient at 0 is 0
  huber,  // e^2 / 2 up to |e| = delta, then delta (|e| - delta / 2) (Huber, 1964)
  // Of a logit x with a target t from 0 to 1: the cross-entropy of sigmoid(x), log(1 + e^x) - t x;
  // errors are |sigmoid(x) - t|.
  binary
};

struct ValueLossOptions {
  ValueLossKind kind = ValueLossKind::mse;
  float delta = 1.0F;                 // of huber
  float gradient_scale = 1.0F;        // as in LossOptions
  const float* loss_scale = nullptr;  // as in LossOptions
  bool write_gradient = true;         // false keeps the predictions (evaluation)
  const float* weights = nullptr;  // (N) on the device: each multiplies its row's losses, gradient
};

// predictions(N, K), a compute dtype, become their gradient. targets(N, K) f32; those that are NaN
// have zero loss, error and gradient. losses(N * K) f32, times the row's weight; errors(N * K) f32:
// |prediction - target|, without weight; may be absent. If the difference is not finite, loss,
// error and gradient are NaN.
void value_loss(Stream& stream, const Tensor& losses, const Tensor& errors,
                const Tensor& predictions, const Tensor& targets, const ValueLossOptions& options);

}  // namespace trireme::ops
