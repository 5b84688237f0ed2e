// SPDX-License-Identifier: Apache-2.0
// Activation functions: those of an MLP, between its two products, and those of CNNs, below. f32,
// bf16 or f16, computed in f32.
// `amax` (1) u32 receives the result's largest magnitude for quantize_fp8; may be absent.
//
// To add a kind: a value here, its functor and its case in activation_math.h, its names in
// models/transformer/activation_names.h, unless it is only gated.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

enum class ActivationKind : std::uint8_t {
  gelu_tanh,   // GELU (Hendrycks & Gimpel, 2016), tanh approximation: GPT-2
  gelu_exact,  // x Phi(x), Phi the normal CDF: BERT, ViT
  silu,        // x / (1 + e^-x) (Elfwing et al., 2017)
  relu2,       // max(x, 0)^2 (So et al., 2021): Nemotron, nanochat
  // Only gated, with limits (gpt-oss, 2025): of g = min(gate, 7) and v = value within -7 and 7,
  // g / (1 + e^-1.702 g) (v + 1).
  clamped_swiglu
};

// y = f(x), element-wise.
void activation_forward(Stream& stream, const Tensor& y, const Tensor& x, ActivationKind kind,
                        const Tensor& amax = {});

// dx = dy * f'(x). dx may alias dy.
void activation_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                         ActivationKind kind, const Tensor& amax = {});

// Gated linear units (Shazeer, 2020) on a packed projection: a row of x(..., 2F) holds F gates,
// then F values. y(..., F) = f(gate) * value: SwiGLU with silu, GeGLU with gelu_tanh. At a kink of
// clamped_swiglu backward takes the slope inside.
void gated_forward(Stream& stream, const Tensor& y, const Tensor& x, ActivationKind kind,
                   const Tensor& amax = {});

// dx(..., 2F) from dy(..., F). dx may be x.
void gated_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                    ActivationKind kind, const Tensor& amax = {});

// Functions whose derivative follows from their value, so backward takes y and the input need not
// be kept: y may be x, and dx may be dy.

// y = x, or slope * x where x < 0 (Maas et al., 2013), with a slope of 0 or more.
void leaky_relu_forward(Stream& stream, const Tensor& y, const Tensor& x, float slope);
// At 0 the derivative is `slope`.
void leaky_relu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y,
                         float slope);

// y = scale * tanh(x), with a scale above 0.
void tanh_forward(Stream& stream, const Tensor& y, const Tensor& x, float scale = 1.0F);
void tanh_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y,
                   float scale = 1.0F);

}  // namespace trireme::ops
