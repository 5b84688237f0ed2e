// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/checkpoint/slices.h"
#include "runtime/ops/update/digest.h"

namespace trireme {

// Elements [offset, offset + count) of a slice, and their places in the whole tensor.
struct DigestPart {
  std::int64_t offset = 0, count = 0;
  ops::DigestPlaces places{};
};

// For elements [first, first + count) of a block of a tensor.
[[nodiscard]] std::vector<DigestPart> digest_parts(const Blocking& blocking, std::int64_t block,
                                                   std::int64_t first, std::int64_t count);

}  // namespace trireme
