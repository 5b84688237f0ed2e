// SPDX-License-Identifier: Apache-2.0
#include "data/loader/permutation.h"

#include <algorithm>
#include <bit>

#include "runtime/base/error.h"
#include "runtime/base/philox.h"

namespace trireme {
namespace {

constexpr unsigned rounds = 8;

constexpr std::uint64_t mask(int bits) {
  return (std::uint64_t{1} << bits) - 1;
}

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch)
    : size_(size), seed_(seed), epoch_(epoch) {
  TRIREME_EXPECTS(size > 0 && size <= (std::uint64_t{1} << 62), "a permutation of {} elements",
                  size);
  const int bits = std::max(2, static_cast<int>(std::bit_width(size - 1)));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  TRIREME_EXPECTS(index < size_, "position {} of {}", index, size_);
  const Philox philox = Philox::keyed(seed_, RandomPurpose::shuffle);
  const auto scramble = [&](unsigned round, std::uint64_t half) {
    const auto words = philox(epoch_, (std::uint64_t{round} << 32) | half);
    return words[0];
  };
  do {
    // Halves of unequal width stay in place and alternate, so every width gives a bijection.
    std::uint64_t low = index & mask(low_bits_), high = index >> low_bits_;
    for (unsigned round = 0; round < rounds; round += 2) {
      high ^= scramble(round, low) & mask(high_bits_);
      low ^= scramble(round + 1, high) & mask(low_bits_);
    }
    index = (high << low_bits_) | low;
  } while (index >= size_);
  return index;
}

}  // namespace trireme
