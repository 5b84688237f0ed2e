// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops::cpu {

void fill_normal(Stream& stream, const Tensor& x, std::uint64_t seed, std::uint64_t parameter,
                 std::int64_t first, float mean, float deviation);
void fill_uniform(Stream& stream, const Tensor& x, std::uint64_t seed, std::uint64_t parameter,
                  std::int64_t first, float low, float high);
void fill_constant(Stream& stream, const Tensor& x, float value);
void fill_sinusoid(Stream& stream, const Tensor& x, float amplitude);

}  // namespace trireme::ops::cpu
