// SPDX-License-Identifier: Apache-2.0
// Private: kernels that sum over rows for each channel and apply the result, shared by batch norm
// and group norm. The rows are those of one or more samples, each with its own mean and variance;
// for batch norm all rows are one sample. Sums in f32 over runs of rows, joined in double.
// Statistics are summed around a pivot, the mean of the rows so far, so that squares do not cancel.
#pragma once

#include "runtime/ops/common/channels_cuda.h"
#include "runtime/ops/norm/batch_norm_math.h"

namespace trireme::ops::cuda {

inline constexpr int rows_of_run = 32;  // that a thread sums before merging

// Rows of the run that begins at `row`.
inline __device__ int run_length(const ChannelPlace& at, std::int64_t row) {
  return static_cast<int>(std::min<std::int64_t>(rows_of_run, ceil_div(at.end - row, at.step)));
}

// partial(samples, slices, C)
template <int width, typename T>
__global__ void statistics_kernel(Moments* partial, const T* x, ChannelTiles tiles) {
  const ChannelPlace at(tiles, width);
  Moments own[width] = {};
  double count = 0.0;
  float pivot[width] = {};
  if (at.begin < at.end) {
    const auto first = load_pack<width>(x + at.begin * tiles.channels + at.channel);
    for (int k = 0; k < width; ++k)
      pivot[k] = load(first[k]);
  }
  for (std::int64_t row = at.begin; row < at.end; row += rows_of_run * at.step) {
    const int length = run_length(at, row);
    float sum[width] = {}, squares[width] = {};
#pragma unroll 4
    for (int i = 0; i < length; ++i) {
      const auto pack = load_pack<width>(x + (row + i * at.step) * tiles.channels + at.channel);
      for (int k = 0; k < width; ++k) {
        const float difference = load(pack[k]) - pivot[k];
        sum[k] += difference;
        squares[k] += difference * difference;
      }
    }
    const auto added = static_cast<double>(length);
    const MomentsJoin join(count, added);
    const double inverse = 1.0 / added;
    for (int k = 0; k < width; ++k) {
      own[k] = join(own[k], moments_around(pivot[k], sum[k], squares[k], added, inverse));
      pivot[k] = static_cast<float>(own[k].mean);
    }
    count += added;
  }
  join_lanes<MomentsJoin>(own, count, tiles.packs);
  if (at.lane != 0 || !at.inside) return;
  for (int k = 0; k < width; ++k)
    partial[at.slice * tiles.channels + at.channel + k] = own[k];
}

// A thread's factors for normalising its pack of channels.
template <int width>
struct Normalization {
  float mean[width] = {}, scale[width] = {}, shift[width] = {};

  // `before`: statistics of earlier samples.
  __device__ Normalization(const NormChannels& by, std::int64_t channel, std::int64_t before,
                           float epsilon) {
    for (int k = 0; k < width; ++k) {
      const std::int64_t c = channel + k;
      mean[k] = by.mean[before + c];
      scale[k] = normalizing_scale(by.gamma[c], by.variance[before + c], epsilon);
      shift[k] = by.beta[c];
    }
  }
  __device__ float operator()(float x, int k) const {
    return normalized(x, mean[k], scale[k], shift[k]);
  }
};

template <NormSummand added, int width, typename T>
__global__ void apply_kernel(NormApplication<T> a, ChannelTiles tiles) {
  const ChannelPlace at(tiles, width);
  if (at.begin >= at.end) return;
  const std::int64_t before = at.sample * tiles.channels;
  const Normalization<width> own(a.by, at.channel, before, a.options.epsilon);
  const Normalization<width> other(added == NormSummand::normalized ? a.summand_by : a.by,
                                   at.channel, before, a.options.epsilon);
  const bool relu = a.options.relu;
  for (std::int64_t row = at.begin; row < at.end; row += at.step) {
    const std::int64_t from = row * tiles.channels + at.channel;
    auto pack = load_pack<width>(a.x + from);
    Pack<T, width> summand;
    if constexpr (added != NormSummand::none) summand = load_pack<width>(a.summand + from);
    for (int k = 0; k < width; ++k) {
      float value = own(load(pack[k]), k);
      if constexpr (added == NormSummand::plain)
        value = rounded<T>(value) + load(summand[k]);
      else if constexpr (added == NormSummand::normalized)
        value = rounded<T>(value) + rounded<T>(other(load(summand[k]), k));
      store(pack[k], relu ? relu_of(value) : value);
    }
    store_at_once(a.y + from, pack);
  }
}

// Sums of dy and of dy * (x - mean).
struct GradientSums {
  double dy, product;

  // A given part of one channel's, of part(2, C).
  __device__ void add(const float* part, std::int64_t channels) {
    dy += static_cast<double>(part[0]);
    product += static_cast<double>(part[channels]);
  }
};
struct GradientSumsJoin {
  __device__ GradientSumsJoin(double, double) {}
  __device__ GradientSums operator()(const GradientSums& a, const GradientSums& b) const {
    return {a.dy + b.dy, a.product + b.product};
  }
};

// partial(samples, slices, C). With ReluMask::sum, dy is masked in place.
template <ReluMask mask, int width, typename T>
__global__ void gradient_sums_kernel(GradientSums* partial, NormGradient<T> g, ChannelTiles tiles) {
  const ChannelPlace at(tiles, width);
  GradientSums own[width] = {};
  const Normalization<width> by(g.by, at.inside ? at.channel : 0, at.sample * tiles.channels,
                                g.epsilon);
  for (std::int64_t row = at.begin; row < at.end; row += rows_of_run * at.step) {
    const int length = run_length(at, row);
    float sum[width] = {}, product[width] = {};
#pragma unroll 2
    for (int i = 0; i < length; ++i) {
      const std::int64_t from = (row + i * at.step) * tiles.channels + at.channel;
      auto above = load_pack<width>(g.dy + from);
      const auto in = load_pack<width>(g.x + from);
      if constexpr (mask == ReluMask::sum) {
        const auto out = load_pack<width>(g.sum + from);
        for (int k = 0; k < width; ++k)
          store(above[k], load(out[k]) > 0.0F ? load(above[k]) : 0.0F);
        store_at_once(g.dy + from, above);
      }
      for (int k = 0; k < width; ++k) {
        float gradient = load(above[k]);
        if constexpr (mask == ReluMask::input)
          gradient = through_relu<T>(gradient, by(load(in[k]), k));
        sum[k] += gradient;
        product[k] += gradient * (load(in[k]) - by.mean[k]);
      }
    }
    for (int k = 0; k < width; ++k) {
      own[k].dy += static_cast<double>(sum[k]);
      own[k].product += static_cast<double>(product[k]);
    }
  }
  join_lanes<GradientSumsJoin>(own, at.begin < at.end ? 1.0 : 0.0, tiles.packs);
  if (at.lane != 0 || !at.inside) return;
  for (int k = 0; k < width; ++k)
    partial[at.slice * tiles.channels + at.channel + k] = own[k];
}

// factors(samples, 3, C) of dy, of 1 and of x - mean in dx.
template <ReluMask mask, int width, typename T>
__global__ void gradient_kernel(NormGradient<T> g, const float* factors, ChannelTiles tiles) {
  const ChannelPlace at(tiles, width);
  if (at.begin >= at.end) return;
  const Normalization<width> by(g.by, at.channel, at.sample * tiles.channels, g.epsilon);
  factors += 3 * at.sample * tiles.channels;
  float factor[width], offset[width], slope[width];
  for (int k = 0; k < width; ++k) {
    const std::int64_t c = at.channel + k;
    factor[k] = factors[c];
    offset[k] = factors[tiles.channels + c];
    slope[k] = factors[2 * tiles.channels + c];
  }
  for (std::int64_t row = at.begin; row < at.end; row += at.step) {
    const std::int64_t from = row * tiles.channels + at.channel;
    const auto above = load_pack<width>(g.dy + from);
    auto pack = load_pack<width>(g.x + from);
    for (int k = 0; k < width; ++k) {
      const float in = load(pack[k]);
      float gradient = load(above[k]);
      if constexpr (mask == ReluMask::input) gradient = through_relu<T>(gradient, by(in, k));
      store(pack[k], factor[k] * gradient - offset[k] - slope[k] * (in - by.mean[k]));
    }
    store_at_once(g.dx + from, pack);
  }
}

// Whether x and every other operand of its shape can be taken in packs.
template <typename T, typename... Others>
bool packs_fit_all(const Tensor& x, const Others*... others) {
  return packs_fit(x.as<T>(), x.shape.back(), pack_width<T>) &&
         (packs_fit(others, 0, pack_width<T>) && ...);
}

}  // namespace trireme::ops::cuda
