// SPDX-License-Identifier: Apache-2.0
// Random initialisation of parameters: element i of a tensor is a pure function of (seed, parameter
// id, i).
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// x[i] (f32) = mean + stddev * normal(seed, parameter, first + i): Box-Muller on Philox words,
// computed in double.
void fill_normal(Stream& stream, const Tensor& x, std::uint64_t seed, std::uint64_t parameter,
                 std::int64_t first, float mean, float stddev);
// x[i] = low + (high - low) * uniform.
void fill_uniform(Stream& stream, const Tensor& x, std::uint64_t seed, std::uint64_t parameter,
                  std::int64_t first, float low, float high);
void fill_constant(Stream& stream, const Tensor& x, float value);
// x = elements first, first + 1, ... of w(P, C) = amplitude * sin(p / 10000^(2i/C)) at [p, 2i],
// cosine at [p, 2i + 1]; C: `width` (Vaswani et al., 2017).
void fill_sinusoid(Stream& stream, const Tensor& x, std::int64_t first, std::int64_t width,
                   float amplitude);

}  // namespace trireme::ops
