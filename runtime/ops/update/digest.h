// SPDX-License-Identifier: Apache-2.0
// Digests of a tensor's bits, to compare copies that must be equal.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/device/device.h"

namespace trireme::ops {

// Where the elements of a part lie in what it is a part of: element i at base + i, or in rows of
// `width` neighbours that begin `stride` apart, of which the part's first is number `first`.
struct DigestPlaces {
  std::uint64_t base = 0;
  std::int64_t width = 0;  // 0: all are neighbours
  std::int64_t stride = 0;
  std::int64_t first = 0;
};

// digest(1) u64 += sum over i of mix(place of x[i], bits of x[i]) mod 2^64; x f32, any shape.
// Integers: neither the order of the sum nor the back end changes it, and the parts of a tensor add
// up to the whole. One changed element, or two that changed places, give another digest but for one
// case in 2^64.
void accumulate_digest(Stream& stream, const Tensor& digest, const Tensor& x,
                       const DigestPlaces& places = {});

// The same on the host.
[[nodiscard]] std::uint64_t host_digest(std::span<const float> x, const DigestPlaces& places = {});

}  // namespace trireme::ops
