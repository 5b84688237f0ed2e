// SPDX-License-Identifier: Apache-2.0
// Fused softmax and cross-entropy. Overwrites the logits with their gradient, so probabilities are
// never stored.
#pragma once

#include "runtime/config/choices.h"
#include "runtime/device/device.h"

namespace trireme::ops {

struct CrossEntropyOptions : LossOptions {
  std::int64_t classes = 0;  // columns [classes, Vp) are padding with zero probability and gradient
  bool write_gradient = true;  // false keeps the logits (evaluation)
  // (N / rows_per_weight) on the device: each multiplies the loss and dlogits of its rows.
  const float* weights = nullptr;
  // (N) on the device: a row's share of its own target in the loss; the rest goes to the target of
  // the next row (cyclic). Rows whose own or other target is -1 use only their own.
  const float* shares = nullptr;
  // (classes) on the device: that of a row's target multiplies its loss and dlogits. The mean stays
  // over the counted rows. Not with shares.
  const float* class_weights = nullptr;
  std::int64_t rows_per_weight = 1;  // pixels of a sample
  // On a GPU each thread takes a row instead of each block: for many rows of few classes. Not with
  // shares.
  bool thread_rows = false;
};

// logits(N, Vp), a compute dtype, become dlogits. targets(N) i32; rows with -1 have zero loss and
// gradient and are not correct. losses(N) f32: nats per row, with smoothing and z_loss, times the
// weights of the row and of its class. correct(N) f32: 1 if the arg-max is the target; may be
// absent. An invalid target is an error on the CPU; on a GPU its loss is NaN.
void cross_entropy(Stream& stream, const Tensor& losses, const Tensor& correct,
                   const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options);

// Half of cross_entropy() and half of a sample's dice loss (Milletari et al., V-Net, 2016), as in
// nnU-Net and MLPerf's U-Net 3D: the mean over its classes but the first of 1 - (2 both + s) /
// (predicted + actual + s), s = 1e-6. Over the sample's counted pixels, `predicted` is the sum of
// the class's probabilities, `both` their sum where the class is true and `actual` the number of
// such pixels. Each counted pixel's loss has all of its sample's dice loss: so the mean over pixels
// is the loss. Operands as above; options.rows_per_weight is the number of a sample's pixels, which
// are all here. Weights of classes multiply the cross-entropy alone. No shares, two classes or
// more.
void dice_cross_entropy(Stream& stream, const Tensor& losses, const Tensor& correct,
                        const Tensor& logits, const Tensor& targets,
                        const CrossEntropyOptions& options);

// total(1) f64 += number of targets of any shape that count: i32 other than -1, f32 other than NaN;
// with `zeros` only of those that are 0.
void count_targets(Stream& stream, const Tensor& total, const Tensor& targets, bool zeros = false);

}  // namespace trireme::ops
