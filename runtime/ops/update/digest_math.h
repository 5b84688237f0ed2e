// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/base/host_device.h"

namespace trireme::ops {

// The term of the element at place i with these bits: the finaliser of splitmix64 (Steele, Lea and
// Flood, OOPSLA 2014) over both.
TRIREME_HOST_DEVICE inline std::uint64_t digest_term(std::uint64_t i, std::uint32_t bits) {
  std::uint64_t z = i * 0x9e3779b97f4a7c15U + bits;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

}  // namespace trireme::ops
