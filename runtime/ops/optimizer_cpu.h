// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ops/optimizer.h"

namespace trireme::ops::cpu {

void adamw(Stream& stream, const Tensor& parameter, const Tensor& compute, const Tensor& m,
           const Tensor& v, const Tensor& gradient, const Tensor& scalars,
           const AdamWOptions& options);
void sgd(Stream& stream, const Tensor& parameter, const Tensor& compute, const Tensor& buffer,
         const Tensor& gradient, const Tensor& scalars, const SgdOptions& options);
void exponential_average(Stream& stream, const Tensor& average, const Tensor& parameter,
                         float decay, const Tensor& scalars);
void accumulate_squares(Stream& stream, const Tensor& total, const Tensor& x);
void clip_scale(Stream& stream, const Tensor& scalars, const Tensor& norm, const Tensor& total,
                float clip, const Tensor& loss_scale);
void update_loss_scale(Stream& stream, const Tensor& state, const Tensor& scalars,
                       const LossScaleOptions& options);

}  // namespace trireme::ops::cpu
