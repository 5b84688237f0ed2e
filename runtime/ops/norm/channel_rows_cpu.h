// SPDX-License-Identifier: Apache-2.0
// For (M, C) matrices with few channels, whose rows are too short for vector loops: treats several
// rows as one wide row, and repeats per-channel values along it. Private to this module.
#pragma once

#include <algorithm>
#include <cstdint>

namespace trireme::ops::cpu {

struct ChannelRows {
  std::int64_t channels;
  std::int64_t repeat;  // rows in one wide row
  std::int64_t width;   // channels * repeat

  explicit ChannelRows(std::int64_t channel_count)
      : channels(channel_count),
        repeat(std::max<std::int64_t>(1, 128 / std::max<std::int64_t>(1, channel_count))),
        width(channels * repeat) {}

  // Fills wide[width] from its first `channels` elements.
  void repeat_channels(float* wide) const {
    for (std::int64_t i = channels; i < width; i += channels)
      std::copy_n(wide, channels, wide + i);
  }
  // Adds the other repeats into the first `channels` elements, in order.
  void fold(float* wide) const {
    for (std::int64_t i = channels; i < width; i += channels) {
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c)
        wide[c] += wide[i + c];
    }
  }
  // Rows whose data stay in the first-level cache between two passes.
  [[nodiscard]] std::int64_t chunk_rows() const {
    const std::int64_t wide_rows = std::clamp<std::int64_t>(4096 / width, 16, 32);
    return wide_rows * repeat;
  }
};

// Calls body(first, count) for runs of at most `width` elements that start on a wide row.
template <typename Body>
void for_each_wide_row(const ChannelRows& rows, std::int64_t elements, const Body& body) {
  std::int64_t first = 0;
  for (; first + rows.width <= elements; first += rows.width)
    body(first, rows.width);
  if (first < elements) body(first, elements - first);
}

}  // namespace trireme::ops::cpu
