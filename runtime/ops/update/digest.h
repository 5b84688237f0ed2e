// SPDX-License-Identifier: Apache-2.0
// Digests of a tensor's bits, to compare copies that must be equal.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// digest(1) u64 += sum over i of mix(i, bits of x[i]) mod 2^64; x f32, any shape. Integers: neither
// the order of the sum nor the back end changes it. One changed element, or two that changed
// places, give another digest but for one case in 2^64.
void accumulate_digest(Stream& stream, const Tensor& digest, const Tensor& x);

}  // namespace trireme::ops
