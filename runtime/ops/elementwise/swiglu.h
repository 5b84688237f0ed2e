// SPDX-License-Identifier: Apache-2.0
// SwiGLU (Shazeer, 2020) on a packed projection: a row of x(..., 2F) holds F gates, then F values.
// A compute dtype, computed in f32. `amax` (1) u32 may be absent: receives what quantize_fp8 wants
// to know of the result.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// y(..., F) = silu(gate) * value, silu(g) = g / (1 + e^-g).
void swiglu_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& amax = {});

// dx(..., 2F) from dy(..., F). dx may be x.
void swiglu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                     const Tensor& amax = {});

}  // namespace trireme::ops
