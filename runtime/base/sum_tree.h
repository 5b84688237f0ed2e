// SPDX-License-Identifier: Apache-2.0
// The binary tree of all reproducible sums: the left half of n leaves holds the largest power of
// two below n.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace trireme {

// Number of inputs in the left half of [first, first + number), at least two inputs. The first
// `doubled` of all inputs are sums of two leaves; the others are one leaf each.
constexpr std::size_t left_half(std::size_t first, std::size_t number, std::size_t doubled = 0) {
  const std::size_t pairs = doubled > first ? std::min(doubled - first, number) : 0;
  // Pairs come first and the half is even if there are any, so no pair is split.
  const std::size_t half = std::bit_ceil(number + pairs) / 2;
  return half - std::min(pairs, half / 2);
}

}  // namespace trireme
