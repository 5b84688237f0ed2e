// SPDX-License-Identifier: Apache-2.0
// Private: written once for all back ends, see common/maps_cpu.h.
#pragma once

#include "runtime/base/portable_math.h"
#include "runtime/ops/random/init.h"

namespace trireme::ops::TRIREME_BACK_END {
namespace {

TRIREME_HOST_DEVICE void set_sinusoid(std::int64_t i, float* x, std::int64_t first,
                                      std::int64_t width, float amplitude) {
  x[i] = sinusoid((first + i) / width, (first + i) % width, width, amplitude);
}

}  // namespace

void fill_sinusoid(Stream& stream, const Tensor& x, std::int64_t first, std::int64_t width,
                   float amplitude) {
  each<set_sinusoid>(stream, x.count(), x.as<float>(), first, width, amplitude);
}

TRIREME_PROVIDES(fill_sinusoid);

}  // namespace trireme::ops::TRIREME_BACK_END
