// SPDX-License-Identifier: Apache-2.0
// The random word of each element, shared by all back ends: the key derives from (seed, layer,
// step), the counter is (sample id, element block), see philox_block.h.
#pragma once

#include "runtime/base/philox.h"

namespace trireme::ops {

TRIREME_HOST_DEVICE inline Philox dropout_key(std::uint64_t seed, std::uint64_t step,
                                              std::uint64_t layer) {
  const auto words = Philox::keyed(seed, RandomPurpose::dropout)(layer, step);
  return {words[0], words[1]};
}

// An element is kept if its word is at least this: probability * 2^32, for probability < 1.
TRIREME_HOST_DEVICE inline std::uint32_t dropout_threshold(float probability) {
  return static_cast<std::uint32_t>(static_cast<double>(probability) * 4294967296.0);
}

}  // namespace trireme::ops
