// SPDX-License-Identifier: Apache-2.0
// Random initialisation of parameters: element i of a tensor is a pure function of (seed, parameter
// id, i).
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// x[i] (f32) = mean + deviation * normal(seed, parameter, first + i): Box-Muller on Philox words,
// computed in double.
void fill_normal(Stream& stream, const Tensor& x, std::uint64_t seed, std::uint64_t parameter,
                 std::int64_t first, float mean, float deviation);
// x[i] = low + (high - low) * uniform.
void fill_uniform(Stream& stream, const Tensor& x, std::uint64_t seed, std::uint64_t parameter,
                  std::int64_t first, float low, float high);
void fill_constant(Stream& stream, const Tensor& x, float value);

}  // namespace trireme::ops
