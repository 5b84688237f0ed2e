// SPDX-License-Identifier: Apache-2.0
// Fused softmax and cross-entropy. Overwrites the logits with their gradient, so probabilities are
// never stored.
#pragma once

#include "runtime/config/choices.h"
#include "runtime/device/device.h"

namespace trireme::ops {

struct CrossEntropyOptions : LossOptions {
  std::int64_t classes = 0;  // columns [classes, Vp) are padding with zero probability and gradient
  bool write_gradient = true;      // false keeps the logits (evaluation)
  const float* weights = nullptr;  // (N) on the device: each multiplies its row's loss and dlogits
  // (N) on the device: a row's share of its own target in the loss; the rest goes to the target of
  // the next row (cyclic). Rows whose own or other target is -1 use only their own.
  const float* shares = nullptr;
};

// logits(N, Vp), a compute dtype, become dlogits. targets(N) i32; rows with -1 have zero loss and
// gradient and are not correct. losses(N) f32: nats per row, with smoothing and z_loss, times the
// row's weight. correct(N) f32: 1 if the arg-max is the target; may be absent. An invalid target is
// an error on the CPU; on a GPU its loss is NaN.
void cross_entropy(Stream& stream, const Tensor& losses, const Tensor& correct,
                   const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options);

// total(1) f64 += number of targets (i32, any shape) that are not -1.
void count_targets(Stream& stream, const Tensor& total, const Tensor& targets);

}  // namespace trireme::ops
