// SPDX-License-Identifier: Apache-2.0
// Private: magnitudes, by which 8-bit floats are scaled (gemm/fp8.h), equal on every back end. An
// op whose output is quantised next stores its largest magnitude, so that quantising need not read
// the tensor for it.
#pragma once

#include <bit>
#include <cstdint>

#include "runtime/base/host_device.h"

namespace trireme::ops {

// x| as an integer: its maximum is the largest magnitude, and a NaN exceeds every number. The
// maximum of integers does not depend on the order.
TRIREME_HOST_DEVICE inline std::uint32_t magnitude_of(float x) {
  return std::bit_cast<std::uint32_t>(x) & 0x7fffffffU;
}

}  // namespace trireme::ops
