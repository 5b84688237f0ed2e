// SPDX-License-Identifier: Apache-2.0
// Fused optimizer updates over flat fp32 arenas, and the gradient norm. Values that change from
// step to step live in device memory (StepScalars), so that a captured step can be replayed.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// Layout of the `scalars` tensor: f32, StepScalars::count elements on the device.
struct StepScalars {
  enum Index : int { learning_rate, bias_correction1, bias_correction2, gradient_scale, count };
};

struct AdamWOptions {
  float beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F;
  float weight_decay = 0.0F;  // decoupled (Loshchilov & Hutter, 2019)
};

// For each element, with g = gradient * scalars[gradient_scale]:
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   p -= lr * ((m / c1) / (sqrt(v / c2) + eps) + decay * p),  c1 = 1 - b1^t, c2 = 1 - b2^t
// `compute` (a compute dtype, may be absent) receives the rounded new parameter. All other
// tensors f32 of equal count.
void adamw(Stream& stream, const Tensor& parameter, const Tensor& compute, const Tensor& m,
           const Tensor& v, const Tensor& gradient, const Tensor& scalars,
           const AdamWOptions& options);

struct SgdOptions {
  float momentum = 0.0F;
  bool nesterov = false;
  float weight_decay = 0.0F;  // added to the gradient, as in PyTorch
};

// g = gradient * scale + decay * p;  b = momentum b + g;  p -= lr * (nesterov ? g + momentum b :
// b).
void sgd(Stream& stream, const Tensor& parameter, const Tensor& compute, const Tensor& buffer,
         const Tensor& gradient, const Tensor& scalars, const SgdOptions& options);

// average = decay * average + (1 - decay) * parameter. With `scalars`, a step that clip_scale
// marked as not finite leaves the average as it is.
void exponential_average(Stream& stream, const Tensor& average, const Tensor& parameter,
                         float decay, const Tensor& scalars = {});

// total(1) f64 += sum of squares of x (f32), in fixed chunks in f64: no atomics, the same bits for
// the same x.
void accumulate_squares(Stream& stream, const Tensor& total, const Tensor& x);

// norm(1) f32 = sqrt(total); scalars[gradient_scale] = clip > 0 && norm > clip ? clip / norm : 1.
// A non-finite norm sets the scale to 0, with which adamw and sgd leave everything as it is, and
// stays visible in `norm`.
void clip_scale(Stream& stream, const Tensor& scalars, const Tensor& norm, const Tensor& total,
                float clip);

}  // namespace trireme::ops
