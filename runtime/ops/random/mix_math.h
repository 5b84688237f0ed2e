// SPDX-License-Identifier: Apache-2.0
// How a sample is mixed, shared by all back ends: a pure function of (seed, epoch, sample id).
#pragma once

#include <cmath>

#include "runtime/base/philox.h"
#include "runtime/ops/random/mix.h"

namespace trireme::ops {

struct MixChoice {
  float share = 1.0F;
  std::int32_t box[MixBox::count] = {};
};

// Beta(a, a) by Joehnk's rejection, in logarithms, because powers of small a underflow. Try k takes
// two words of draw k.
TRIREME_HOST_DEVICE inline double draw_beta(const Philox& random, std::uint64_t sample,
                                            std::uint64_t epoch, double a) {
  constexpr int tries = 4096;
  constexpr std::uint64_t draws = std::uint64_t{1} << 32;  // per epoch
  for (std::uint64_t k = 1; k <= tries; ++k) {
    const auto words = random(sample, epoch + k * draws);
    const auto logarithm = [a](std::uint32_t word) {
      return std::log((static_cast<double>(word) + 0.5) * 0x1p-32) / a;
    };
    const double first = logarithm(words[0]), second = logarithm(words[1]);
    if (std::exp(first) + std::exp(second) <= 1.0) return 1.0 / (1.0 + std::exp(second - first));
  }
  return 0.5;
}

// CutMix's box has sides of sqrt(1 - share) around a centre drawn anywhere, and is clipped at the
// borders; the share is then that of the remaining pixels.
TRIREME_HOST_DEVICE inline MixChoice mix_of(const MixOptions& options, std::int64_t sample,
                                            std::int64_t epoch) {
  const Philox random = Philox::keyed(options.seed, RandomPurpose::mix);
  const auto id = static_cast<std::uint64_t>(sample), pass = static_cast<std::uint64_t>(epoch);
  const auto words = random(id, pass);
  const bool cuts = options.mixup <= 0 || (options.cutmix > 0 && (words[0] >> 31) != 0);
  const double share = draw_beta(random, id, pass, cuts ? options.cutmix : options.mixup);
  MixChoice choice;
  choice.share = static_cast<float>(share);
  if (!cuts) return choice;
  const double side = std::sqrt(1.0 - share);
  const auto cut = [side](std::int64_t extent, std::uint32_t word, std::int32_t* range) {
    const auto half = static_cast<std::int64_t>(side * static_cast<double>(extent)) / 2;
    const auto centre =
        static_cast<std::int64_t>((word * static_cast<std::uint64_t>(extent)) >> 32);
    const std::int64_t from = centre - half, to = centre + half;
    range[0] = static_cast<std::int32_t>(from < 0 ? 0 : from);
    range[1] = static_cast<std::int32_t>(to > extent ? extent : to);
  };
  cut(options.height, words[1], choice.box + MixBox::top);
  cut(options.width, words[2], choice.box + MixBox::left);
  const std::int64_t inside = std::int64_t{choice.box[MixBox::bottom] - choice.box[MixBox::top]} *
                              (choice.box[MixBox::right] - choice.box[MixBox::left]);
  choice.share = static_cast<float>(1.0 - static_cast<double>(inside) /
                                              static_cast<double>(options.height * options.width));
  return choice;
}

// Value of row n of a batch at (row, column): its own, the other's, or their weighted sum.
struct PixelMix {
  float own, other;
};
TRIREME_HOST_DEVICE inline PixelMix pixel_mix(float share, const std::int32_t* box,
                                              std::int64_t row, std::int64_t column) {
  if (box[MixBox::bottom] == 0 && box[MixBox::right] == 0) return {share, 1.0F - share};
  const bool inside = row >= box[MixBox::top] && row < box[MixBox::bottom] &&
                      column >= box[MixBox::left] && column < box[MixBox::right];
  return inside ? PixelMix{0.0F, 1.0F} : PixelMix{1.0F, 0.0F};
}

}  // namespace trireme::ops
