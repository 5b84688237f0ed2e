// SPDX-License-Identifier: Apache-2.0
// GELU, tanh form (Hendrycks & Gimpel, 2016), as GPT-2 uses it. f32, bf16 or f16, element-wise.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

void gelu_forward(Stream& stream, const Tensor& y, const Tensor& x);

// dx = dy * gelu'(x). dx may alias dy.
void gelu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x);

}  // namespace trireme::ops
