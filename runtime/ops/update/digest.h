// SPDX-License-Identifier: Apache-2.0
// Digests of a tensor's bits, to compare copies that must be equal.
#pragma once

#include <cstdint>
#include <span>

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

}  // namespace trireme::ops
