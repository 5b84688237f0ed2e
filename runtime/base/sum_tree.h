// SPDX-License-Identifier: Apache-2.0
// The one binary tree that reproducible sums follow: the left half of n leaves holds the largest
// power of two below n.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace trireme {

// Of the inputs [first, first + number), two at least, how many are in the left half. The first
// `doubled` of all inputs stand for two leaves each, sums of two that nobody has apart; the others
// for one.
constexpr std::size_t left_half(std::size_t first, std::size_t number, std::size_t doubled = 0) {
  const std::size_t pairs = doubled > first ? std::min(doubled - first, number) : 0;
  // Pairs come first and the half is even where there are any: none lies on both sides.
  const std::size_t half = std::bit_ceil(number + pairs) / 2;
  return half - std::min(pairs, half / 2);
}

}  // namespace trireme
