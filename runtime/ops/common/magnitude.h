// SPDX-License-Identifier: Apache-2.0
// Private: the magnitude of a value, by which 8-bit floats are scaled (gemm/fp8.h), the same on
// every back end. An op that writes a tensor which is quantised next leaves the largest one, so
// that quantising need not read the tensor for it.
#pragma once

#include <bit>
#include <cstdint>

#include "runtime/base/host_device.h"

namespace trireme::ops {

// |x| as an integer: its maximum is the largest magnitude, and a NaN passes every number. Integers
// have one maximum in any order.
TRIREME_HOST_DEVICE inline std::uint32_t magnitude_of(float x) {
  return std::bit_cast<std::uint32_t>(x) & 0x7fffffffU;
}

}  // namespace trireme::ops
