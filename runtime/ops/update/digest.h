// SPDX-License-Identifier: Apache-2.0
// Digests of a tensor's bits, to compare copies that must be equal.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/base/host_device.h"
#include "runtime/device/device.h"

namespace trireme::ops {

// Places of a part's elements in the whole: element i at base + i, or in rows of `width` adjacent
// elements, `stride` apart, the part's first element being number `first`.
struct DigestPlaces {
  std::uint64_t base = 0;
  std::int64_t width = 0;  // 0: contiguous
  std::int64_t stride = 0;
  std::int64_t first = 0;
};

// digest(1) u64 += sum over i of mix(place of x[i], bits of x[i]) mod 2^64; x f32, any shape.
// Integers: neither summation order nor back end matters, and the parts of a tensor add up to the
// whole. A changed element, or two swapped ones, change the digest except with probability 2^-64.
void accumulate_digest(Stream& stream, const Tensor& digest, const Tensor& x,
                       const DigestPlaces& places = {});

// The same on the host.
[[nodiscard]] std::uint64_t host_digest(std::span<const float> x, const DigestPlaces& places = {});

// The term of the element at place i with these bits: the finaliser of splitmix64 (Steele, Lea and
// Flood, OOPSLA 2014) over both.
TRIREME_HOST_DEVICE inline std::uint64_t digest_term(std::uint64_t i, std::uint32_t bits) {
  std::uint64_t z = i * 0x9e3779b97f4a7c15U + bits;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

}  // namespace trireme::ops
