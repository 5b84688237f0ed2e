// SPDX-License-Identifier: Apache-2.0
#include "data/images/resample.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/philox.h"

namespace trireme {
namespace {

// Per output position the input positions with their weights (sum 1).
struct Taps {
  struct Run {
    std::int64_t first = 0;
    std::size_t count = 0;
    std::size_t weights = 0;  // index of the first
  };
  std::vector<Run> runs;
  std::vector<float> weights;

  [[nodiscard]] std::int64_t begin() const { return runs.front().first; }
  [[nodiscard]] std::int64_t end() const {
    return runs.back().first + static_cast<std::int64_t>(runs.back().count);
  }
};

struct Reach {
  std::int64_t begin = 0, end = 0;
};

double centre_of(const Axis& axis, std::int64_t i) {
  return axis.origin + (static_cast<double>(axis.first + i) + 0.5) * axis.step;
}

Reach reach_of(const Axis& axis, std::int64_t i) {
  const double centre = centre_of(axis, i), reach = std::max(axis.step, 1.0);
  const auto place = [](double value) {
    return static_cast<std::int64_t>(std::floor(value + 0.5));
  };
  const std::int64_t begin = std::clamp(place(centre - reach), axis.low, axis.high - 1);
  return {begin, std::clamp(place(centre + reach), begin + 1, axis.high)};
}

void make_taps(const Axis& axis, Taps& taps) {
  const double reach = std::max(axis.step, 1.0);
  taps.runs.clear();
  taps.weights.clear();
  for (std::int64_t i = 0; i < axis.count; ++i) {
    const double centre = centre_of(axis, i);
    const auto [begin, end] = reach_of(axis, i);
    const std::size_t first = taps.weights.size();
    double sum = 0;
    for (std::int64_t k = begin; k < end; ++k) {
      const double weight =
          std::max(0.0, 1.0 - std::abs(static_cast<double>(k) + 0.5 - centre) / reach);
      taps.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (float& weight : std::span(taps.weights).subspan(first))
      weight = sum > 0 ? static_cast<float>(weight / sum) : 1.0F / static_cast<float>(end - begin);
    taps.runs.push_back({begin, taps.weights.size() - first, first});
  }
}

// Resamples one row of C channels to `count` positions, as floats. `left`: position of row[0].
template <std::size_t C>
void resample_row(const Taps& taps, std::int64_t left, const std::uint8_t* row, float* to) {
  for (const Taps::Run& run : taps.runs) {
    const std::uint8_t* at = row + static_cast<std::size_t>(run.first - left) * C;
    const float* const weights = taps.weights.data() + run.weights;
    float sums[C] = {};
    for (std::size_t k = 0; k < run.count; ++k, at += C) {
      for (std::size_t c = 0; c < C; ++c)
        sums[c] += weights[k] * static_cast<float>(at[c]);
    }
    to = std::copy_n(sums, C, to);
  }
}

Axis reduced(const Axis& axis, std::int64_t by, std::int64_t side) {
  const auto divisor = static_cast<double>(by);
  return {axis.origin / divisor,
          axis.step / divisor,
          axis.first,
          axis.count,
          axis.low / by,
          std::min((axis.high + by - 1) / by, side)};
}

// Buffers that a thread reuses for every image.
struct Scratch {
  Taps rows, columns;
  std::vector<float> across;  // (rows, width C): resampled along the row
  std::vector<float> sum;     // (width C)
};

}  // namespace

View view_of_region(const Region& region, std::int64_t height, std::int64_t width) {
  const auto axis = [](std::int64_t first, std::int64_t side, std::int64_t count) {
    return Axis{static_cast<double>(first),
                static_cast<double>(side) / static_cast<double>(count),
                0,
                count,
                first,
                first + side};
  };
  return {axis(region.top, region.height, height), axis(region.left, region.width, width)};
}

View view_of_centre(const ImageSize& image, const ImageSize& cover, std::int64_t height,
                    std::int64_t width) {
  // Sides in proportion, one of them covered exactly.
  const bool by_height = image.height * cover.width <= image.width * cover.height;
  const std::int64_t from = by_height ? image.height : image.width,
                     to = by_height ? cover.height : cover.width;
  const auto scaled = [&](std::int64_t side, std::int64_t least) {
    return std::max(least, (side * to + from / 2) / from);
  };
  const auto axis = [](std::int64_t side, std::int64_t whole, std::int64_t count) {
    return Axis{
        0,   static_cast<double>(side) / static_cast<double>(whole), (whole - count) / 2, count, 0,
        side};
  };
  return {axis(image.height, scaled(image.height, cover.height), height),
          axis(image.width, scaled(image.width, cover.width), width)};
}

Region needed_for(const View& view) {
  const auto [rows, columns] = view;
  const std::int64_t top = reach_of(rows, 0).begin, left = reach_of(columns, 0).begin;
  return {top, left, reach_of(rows, rows.count - 1).end - top,
          reach_of(columns, columns.count - 1).end - left};
}

std::int64_t reduction_for(const View& view) {
  const double step = std::min(view.rows.step, view.columns.step);
  std::int64_t by = 1;
  while (by < 8 && step >= static_cast<double>(2 * by))
    by *= 2;
  return by;
}

void resample(const DecodedPart& part, const View& view, std::span<std::uint8_t> to) {
  thread_local Scratch scratch;
  const Pixels& from = part.pixels;
  make_taps(reduced(view.rows, part.reduction, part.size.height), scratch.rows);
  make_taps(reduced(view.columns, part.reduction, part.size.width), scratch.columns);
  const std::int64_t top = scratch.rows.begin(), bottom = scratch.rows.end();
  const auto row = static_cast<std::size_t>(view.columns.count * from.channels);
  TRIREME_EXPECTS(
      top >= part.top && bottom <= part.top + from.height && scratch.columns.begin() >= part.left &&
          scratch.columns.end() <= part.left + from.width &&
          to.size() == row * static_cast<std::size_t>(view.rows.count),
      "rows {} to {} and columns {} to {} of a window at {}, {} of {} x {}", top, bottom,
      scratch.columns.begin(), scratch.columns.end(), part.top, part.left, from.height, from.width);
  scratch.across.resize(static_cast<std::size_t>(bottom - top) * row);
  float* across = scratch.across.data();
  for (std::int64_t y = top; y < bottom; ++y, across += row) {
    const std::uint8_t* const pixels =
        from.data.data() + (y - part.top) * from.width * from.channels;
    from.channels == 1 ? resample_row<1>(scratch.columns, part.left, pixels, across)
                       : resample_row<3>(scratch.columns, part.left, pixels, across);
  }
  scratch.sum.resize(row);
  std::uint8_t* target = to.data();
  for (const Taps::Run& run : scratch.rows.runs) {
    std::ranges::fill(scratch.sum, 0.0F);
    for (std::size_t k = 0; k < run.count; ++k) {
      const float weight = scratch.rows.weights[run.weights + k];
      const float* const values =
          scratch.across.data() + (static_cast<std::size_t>(run.first - top) + k) * row;
      for (std::size_t i = 0; i < row; ++i)
        scratch.sum[i] += weight * values[i];
    }
    for (std::size_t i = 0; i < row; ++i)
      *target++ = static_cast<std::uint8_t>(std::clamp(scratch.sum[i] + 0.5F, 0.0F, 255.0F));
  }
}

Pixels resize_and_crop(Pixels image, std::int64_t size) {
  if (image.height == size && image.width == size) return image;
  Pixels out{size, size, image.channels, {}};
  out.data.resize(static_cast<std::size_t>(size * size * image.channels));
  const ImageSize whole{image.height, image.width};
  resample({.pixels = std::move(image), .size = whole},
           view_of_centre(whole, {size, size}, size, size), out.data);
  return out;
}

namespace {

constexpr std::uint64_t attempts = 10;

std::int64_t rounded(double value) {
  return static_cast<std::int64_t>(std::floor(value + 0.5));
}

// [0, count)
std::int64_t below(std::uint32_t word, std::int64_t count) {
  return static_cast<std::int64_t>((word * static_cast<std::uint64_t>(count)) >> 32);
}

Region centre(const ImageSize& image, std::int64_t height, std::int64_t width) {
  return {(image.height - height) / 2, (image.width - width) / 2, height, width};
}

}  // namespace

Region random_crop(const ImageSize& image, const CropRange& range, std::uint64_t seed,
                   std::int64_t sample, std::int64_t epoch) {
  const Philox random = Philox::keyed(seed, RandomPurpose::crop);
  const auto area = static_cast<double>(image.height) * static_cast<double>(image.width);
  const double low = std::log(range.ratio[0]), high = std::log(range.ratio[1]);
  for (std::uint64_t attempt = 0; attempt < attempts; ++attempt) {
    const auto words = random(static_cast<std::uint64_t>(sample),
                              static_cast<std::uint64_t>(epoch) << 4 | attempt);
    const double share = range.scale[0] + (range.scale[1] - range.scale[0]) *
                                              static_cast<double>(Philox::uniform(words[0]));
    const double ratio =
        std::exp(low + (high - low) * static_cast<double>(Philox::uniform(words[1])));
    const std::int64_t width = rounded(std::sqrt(area * share * ratio)),
                       height = rounded(std::sqrt(area * share / ratio));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    return {below(words[2], image.height - height + 1), below(words[3], image.width - width + 1),
            height, width};
  }
  const double ratio = static_cast<double>(image.width) / static_cast<double>(image.height);
  const auto side = [](double value, std::int64_t most) {
    return std::clamp<std::int64_t>(rounded(value), 1, most);
  };
  if (ratio < range.ratio[0])
    return centre(image, side(static_cast<double>(image.width) / range.ratio[0], image.height),
                  image.width);
  if (ratio > range.ratio[1])
    return centre(image, image.height,
                  side(static_cast<double>(image.height) * range.ratio[1], image.width));
  return {0, 0, image.height, image.width};
}

}  // namespace trireme
