// SPDX-License-Identifier: Apache-2.0
// The random choices of a sample, shared by all back ends: a pure function of (seed, sample id,
// epoch).
#pragma once

#include "runtime/base/philox.h"
#include "runtime/ops/random/augment.h"

namespace trireme::ops {

// Output pixel (h, w) shows input pixel (h + top, flip ? width - 1 - (w + left) : w + left).
struct AugmentChoice {
  std::int64_t top = 0, left = 0;
  bool flip = false;
};

TRIREME_HOST_DEVICE inline AugmentChoice choose_augmentation(const AugmentOptions& options,
                                                             std::int64_t sample,
                                                             std::int64_t epoch) {
  if (!options.random) return {};
  const auto words = Philox::keyed(options.seed, RandomPurpose::augment)(
      static_cast<std::uint64_t>(sample), static_cast<std::uint64_t>(epoch));
  const auto positions = static_cast<std::uint64_t>(2 * options.crop_padding + 1);
  const auto top = static_cast<std::int64_t>((words[0] * positions) >> 32);
  const auto left = static_cast<std::int64_t>((words[1] * positions) >> 32);
  return {top - options.crop_padding, left - options.crop_padding,
          options.flip && (words[2] >> 31) != 0};
}

TRIREME_HOST_DEVICE inline float normalized_byte(int byte, float mean, float stddev) {
  return (static_cast<float>(byte) / 255.0F - mean) / stddev;
}

}  // namespace trireme::ops
