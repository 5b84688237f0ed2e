// SPDX-License-Identifier: Apache-2.0
// GELU (Hendrycks & Gimpel, 2016). f32, bf16 or f16, element-wise. `amax` (1) u32 may be absent:
// receives what quantize_fp8 wants to know of the result.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

enum class GeluForm : std::uint8_t {
  tanh,  // the approximation by a tanh, as GPT-2 uses it
  exact  // x Phi(x), Phi the normal distribution: BERT, ViT
};

void gelu_forward(Stream& stream, const Tensor& y, const Tensor& x, GeluForm form = GeluForm::tanh,
                  const Tensor& amax = {});

// dx = dy * gelu'(x). dx may alias dy.
void gelu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                   GeluForm form = GeluForm::tanh, const Tensor& amax = {});

}  // namespace trireme::ops
