// SPDX-License-Identifier: Apache-2.0
#include "data/fields/sample_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace trireme {
namespace {

constexpr std::uint32_t exponent_bits = 0x7f800000U;

// Without sign, NaN and infinity have the largest bit patterns.
bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t magnitude_bits = 0x7fffffffU;
  std::uint32_t largest = 0;
  for (const float value : values)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & magnitude_bits);
  return largest < exponent_bits;
}

// Counts NaN and infinity, which become 0 if `clear`. A difference and a product cannot be fused,
// so a value is the same wherever it is computed.
template <bool scaled, bool clear>
std::uint32_t scale_part(float* values, std::size_t count, const float* subtract,
                         const float* multiply) {
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_bad = (std::bit_cast<std::uint32_t>(values[i]) & exponent_bits) == exponent_bits;
    bad += is_bad ? 1U : 0U;
    if constexpr (scaled) values[i] = (values[i] - subtract[i]) * multiply[i];
    if constexpr (clear) values[i] = is_bad ? 0.0F : values[i];
  }
  return bad;
}

}  // namespace

RowScale::RowScale(const ChannelScale& scale, std::int64_t channels)
    : scales_(!scale.subtract.empty()) {
  constexpr std::size_t long_enough = 1024;
  const auto count = static_cast<std::size_t>(channels);
  const std::size_t pixels = std::max<std::size_t>(1, long_enough / count);
  subtract_.assign(pixels * count, 0.0F);
  multiply_.assign(pixels * count, 1.0F);
  for (std::size_t i = 0; scales_ && i < subtract_.size(); ++i) {
    subtract_[i] = scale.subtract[i % count];
    multiply_[i] = scale.multiply[i % count];
  }
}

template <bool clear>
std::uint64_t RowScale::run(std::span<float> values) const {
  if (!scales_ && all_finite(values)) return 0;
  std::uint64_t bad = 0;
  for (std::size_t at = 0; at < values.size(); at += subtract_.size()) {
    const std::size_t count = std::min(subtract_.size(), values.size() - at);
    float* const part = values.data() + at;
    bad += scales_ ? scale_part<true, clear>(part, count, subtract_.data(), multiply_.data())
                   : scale_part<false, clear>(part, count, nullptr, nullptr);
  }
  return bad;
}

std::uint64_t RowScale::apply(std::span<float> values) const {
  return run<false>(values);
}

std::uint64_t RowScale::apply_and_clear(std::span<float> values) const {
  return run<true>(values);
}

void transform(InputTransform kind, std::span<float> values) {
  if (kind == InputTransform::none) return;
  const auto exact = [](float value) {
    return static_cast<float>(std::log1p(static_cast<double>(value)));
  };
  // Counts, such as particles in a cell, are most often small.
  static const std::vector<float> of_counts = [&] {
    std::vector<float> table(std::size_t{1} << 15);
    for (std::size_t i = 0; i < table.size(); ++i)
      table[i] = exact(static_cast<float>(i));
    return table;
  }();
  const auto end = static_cast<float>(of_counts.size());
  for (float& value : values) {
    const std::size_t count = value >= 0 && value < end ? static_cast<std::size_t>(value) : 0;
    value = static_cast<float>(count) == value ? of_counts[count] : exact(value);
  }
}

void place_channels(const AxisPlaces& places, const ChannelRead& read,
                    const std::array<std::int64_t, 3>& pixels, std::int64_t channels,
                    const float* from, float* to) {
  const auto [slices, rows, width] = pixels;
  // Strides of the dense box, per axis.
  std::array<std::int64_t, most_axes> counts{};
  const auto set = [&](int axis, std::int64_t count) {
    if (axis >= 0) counts[static_cast<std::size_t>(axis)] = count;
  };
  set(places.sample, 1);
  set(places.step, static_cast<std::int64_t>(read.steps));
  set(places.channel, static_cast<std::int64_t>(read.channels));
  if (places.channel_axes > 1) set(places.channel + 1, 1);  // counted by the first
  set(places.depth, slices);
  set(places.row, rows);
  set(places.column, width);
  const auto stride = [&](int axis) {
    std::int64_t product = axis < 0 ? 0 : 1;
    for (std::size_t i = static_cast<std::size_t>(axis + 1); axis >= 0 && i < places.axes; ++i)
      product *= counts[i];
    return product;
  };
  const std::int64_t slice_stride = stride(places.depth), row_stride = stride(places.row),
                     column_stride = stride(places.column), channel_stride = stride(places.channel),
                     step_stride = stride(places.step);
  const auto step_count = static_cast<std::int64_t>(read.steps),
             channel_count = static_cast<std::int64_t>(read.channels);
  for (std::int64_t line = 0; line < slices * rows; ++line) {
    const float* const first = from + line / rows * slice_stride + line % rows * row_stride;
    for (std::int64_t s = 0; s < step_count; ++s) {
      for (std::int64_t c = 0; c < channel_count; ++c) {
        const std::int64_t out = read.to[static_cast<std::size_t>(s * channel_count + c)];
        if (out < 0) continue;
        const float* const source = first + s * step_stride + c * channel_stride;
        float* const target = to + line * width * channels + out;
        for (std::int64_t w = 0; w < width; ++w)
          target[w * channels] = source[w * column_stride];
      }
    }
  }
}

}  // namespace trireme
