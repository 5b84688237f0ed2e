// SPDX-License-Identifier: Apache-2.0
// The kernels of batch norm for each sample, and between their stages a warp for each group of a
// sample, which joins its channels.
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/norm/channel_norm_cuda.h"
#include "runtime/ops/norm/group_norm.h"

namespace trireme::ops::cuda {
namespace {

// Groups of all samples; adjacent channels make a group.
struct Groups {
  std::int64_t count, width, channels;
  double rows;  // of a sample, in all parts

  Groups(const Shape& x, std::int64_t groups, const NormParts& given)
      : count(x[0] * groups),
        width(x.back() / groups),
        channels(x.back()),
        rows(static_cast<double>(given.parts.empty() ? x.rows() / x[0] : given.values)) {}
  [[nodiscard]] Grid grid() const {
    return {.blocks = ceil_div(count, channel_threads / warp_size), .threads = channel_threads};
  }
  // Calls f(channel of all samples) for this lane's channels of a group.
  template <typename F>
  __device__ void each_channel(std::int64_t group, F f) const {
    for (std::int64_t c = threadIdx.x % warp_size; c < width; c += warp_size)
      f(group * width + c);
  }
  // The same over all channels of the group, of which every lane gets the sum.
  template <typename F>
  __device__ double sum(std::int64_t group, F f) const {
    double own = 0.0;
    each_channel(group, [&](std::int64_t c) { own += f(c); });
    return warp_reduce(own, Sum{});
  }
};

__device__ std::int64_t group_of_warp() {
  return (static_cast<std::int64_t>(blockIdx.x) * channel_threads + threadIdx.x) / warp_size;
}

// sums(samples, C) of partial(samples, slices, C).
template <typename Join, typename Value>
__global__ void join_slices_kernel(Value* sums, const Value* partial, ChannelTiles tiles) {
  const std::int64_t blocks = gridDim.x / tiles.samples, sample = blockIdx.x / blocks;
  const std::int64_t c = blockIdx.x % blocks * channels_per_block +
                         static_cast<std::int64_t>(threadIdx.x) % channels_per_block;
  const Value all = join_slices<Join>(partial + sample * tiles.slices * tiles.channels, tiles, c);
  if (threadIdx.x >= channels_per_block || c >= tiles.channels) return;
  sums[sample * tiles.channels + c] = all;
}

__device__ Moments join_parts(const float* parts, std::int64_t count, std::int64_t stride,
                              std::int64_t channels, Moments /*of*/) {
  PartsJoin all;
  for (std::int64_t p = 0; p < count; ++p)
    all.add(parts + p * stride, channels);
  return all.moments;
}
__device__ GradientSums join_parts(const float* parts, std::int64_t count, std::int64_t stride,
                                   std::int64_t channels, GradientSums all) {
  for (std::int64_t p = 0; p < count; ++p)
    all.add(parts + p * stride, channels);
  return all;
}

// sums(samples, C) of parts(count, samples, rows, C); a thread for each.
template <typename Value>
__global__ void join_parts_kernel(Value* sums, const float* parts, std::int64_t count,
                                  std::int64_t rows, std::int64_t samples, std::int64_t channels) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * channel_threads + threadIdx.x;
  if (i >= samples * channels) return;
  const float* const first = parts + i / channels * rows * channels + i % channels;
  sums[i] = join_parts(first, count, samples * rows * channels, channels, Value{});
}

__global__ void group_statistics_kernel(float* mean, float* variance, const Moments* of,
                                        Groups groups) {
  const std::int64_t group = group_of_warp();
  if (group >= groups.count) return;
  const auto width = static_cast<double>(groups.width);
  const double average = groups.sum(group, [&](std::int64_t c) { return of[c].mean; }) / width;
  const double squares = groups.sum(group, [&](std::int64_t c) {
    const double delta = of[c].mean - average;
    return of[c].squares + groups.rows * (delta * delta);
  });
  groups.each_channel(group, [&](std::int64_t c) {
    mean[c] = static_cast<float>(average);
    variance[c] = static_cast<float>(squares / (groups.rows * width));
  });
}

// factors(samples, 3, C), as gradient_kernel() takes them.
template <typename T>
__global__ void group_factors_kernel(float* factors, NormGradient<T> g, const GradientSums* of,
                                     Groups groups) {
  const std::int64_t group = group_of_warp();
  if (group >= groups.count) return;
  const std::int64_t before = group * groups.width / groups.channels * groups.channels;
  const double inverse = 1.0 / (groups.rows * static_cast<double>(groups.width));
  const auto gamma = [&](std::int64_t c) { return static_cast<double>(g.by.gamma[c - before]); };
  const double sum = groups.sum(group, [&](std::int64_t c) { return gamma(c) * of[c].dy; });
  const double product =
      groups.sum(group, [&](std::int64_t c) { return gamma(c) * of[c].product; });
  groups.each_channel(group, [&](std::int64_t c) {
    const float variance = g.by.variance[c];
    const ChannelGradient all(sum, product, inverse, 1.0F, variance, g.epsilon);
    float* const to = factors + 2 * before + c;
    to[0] = ChannelGradient(0.0, 0.0, inverse, g.by.gamma[c - before], variance, g.epsilon).scale;
    to[groups.channels] = all.offset;
    to[2 * groups.channels] = all.slope;
  });
}

// A thread for each channel adds up the samples.
template <typename T>
__global__ void channel_gradients_kernel(NormGradient<T> g, const GradientSums* of,
                                         ChannelTiles tiles) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * channel_threads + threadIdx.x;
  if (c >= tiles.channels) return;
  float dgamma = g.dgamma[c], dbeta = g.dbeta[c];
  for (std::int64_t i = c; i < tiles.samples * tiles.channels; i += tiles.channels) {
    const ChannelGradient own(of[i].dy, of[i].product, 1.0, 1.0F, g.by.variance[i], g.epsilon);
    dgamma += own.dgamma;
    dbeta += own.dbeta;
  }
  g.dgamma[c] = dgamma;
  g.dbeta[c] = dbeta;
}

// Room for partial(samples, slices, C), sums(samples, C) and factors(samples, 3, C).
template <typename Value>
struct Scratch {
  Value *partial, *sums;
  float* factors;

  Scratch(Stream& stream, const ChannelTiles& tiles) {
    const auto values = static_cast<std::size_t>(tiles.samples * tiles.channels);
    const std::size_t slices = values * static_cast<std::size_t>(tiles.slices);
    std::byte* const memory = CudaStream::of(stream).scratch((slices + values) * sizeof(Value) +
                                                             3 * values * sizeof(float));
    partial = reinterpret_cast<Value*>(memory);
    sums = partial + slices;
    factors = reinterpret_cast<float*>(sums + values);
  }
};

template <typename Value>
void join_given(Stream& stream, const Scratch<Value>& scratch, const NormParts& given,
                const ChannelTiles& tiles) {
  const std::int64_t values = tiles.samples * tiles.channels;
  launch(stream, {.blocks = ceil_div(values, channel_threads), .threads = channel_threads},
         join_parts_kernel<Value>, scratch.sums, given.parts.as<float>(), given.parts.shape[0],
         given.parts.shape[1] / tiles.samples, tiles.samples, tiles.channels);
}

template <typename Join, typename Value>
void join_all_slices(Stream& stream, const Scratch<Value>& scratch, const ChannelTiles& tiles) {
  Grid grid = channel_grid(tiles.channels);
  grid.blocks *= tiles.samples;
  launch(stream, grid, join_slices_kernel<Join, Value>, scratch.sums, scratch.partial, tiles);
}

ChannelTiles tiles_of(const Shape& x, int width, std::int64_t blocks) {
  return {x.rows() / x[0], x.back(), width, blocks, x[0]};
}

template <int width, typename T>
void forward(Stream& stream, const NormApplication<T>& a, const BatchNormChannels& by,
             const Shape& x, std::int64_t groups, const NormParts& given) {
  const ChannelTiles sums = tiles_of(x, width, ChannelTiles::sum_blocks);
  const ChannelTiles map = tiles_of(x, width, ChannelTiles::map_blocks);
  const Scratch<Moments> scratch(stream, sums);
  const Groups all(x, groups, given);
  if (given.parts.empty()) {
    launch(stream, sums.grid(), statistics_kernel<width, T>, scratch.partial, a.x, sums);
    join_all_slices<MomentsJoin>(stream, scratch, sums);
  } else {
    join_given(stream, scratch, given, sums);
  }
  launch(stream, all.grid(), group_statistics_kernel, by.mean.as<float>(), by.variance.as<float>(),
         scratch.sums, all);
  launch(stream, map.grid(), apply_kernel<NormSummand::none, width, T>, a, map);
}

template <ReluMask mask, int width, typename T>
void backward(Stream& stream, const NormGradient<T>& g, const Shape& x, std::int64_t groups,
              const NormParts& given) {
  const ChannelTiles sums = tiles_of(x, width, ChannelTiles::sum_blocks);
  const ChannelTiles map = tiles_of(x, width, ChannelTiles::map_blocks);
  const Scratch<GradientSums> scratch(stream, sums);
  const Groups all(x, groups, given);
  if (given.parts.empty()) {
    launch(stream, sums.grid(), gradient_sums_kernel<mask, width, T>, scratch.partial, g, sums);
    join_all_slices<GradientSumsJoin>(stream, scratch, sums);
  } else {
    join_given(stream, scratch, given, sums);
  }
  launch(stream, all.grid(), group_factors_kernel<T>, scratch.factors, g, scratch.sums, all);
  const std::int64_t blocks = ceil_div(x.back(), channel_threads);
  if (g.dgamma != nullptr)
    launch(stream, {.blocks = blocks, .threads = channel_threads}, channel_gradients_kernel<T>, g,
           scratch.sums, sums);
  launch(stream, map.grid(), gradient_kernel<mask, width, T>, g, scratch.factors, map);
}

}  // namespace

void group_norm_forward(Stream& stream, const Tensor& y, const Tensor& x,
                        const BatchNormChannels& channels, const GroupNormOptions& options,
                        const NormParts& given) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    const NormApplication<T> a{.y = y.as<T>(),
                               .x = x.as<T>(),
                               .summand = nullptr,
                               .by = NormChannels(channels),
                               .summand_by = NormChannels(channels),
                               .count = x.shape.rows() / x.shape[0],
                               .options = {.epsilon = options.epsilon, .relu = options.relu}};
    with_width<T>(packs_fit_all<T>(x, a.y), [&](auto width) {
      forward<decltype(width)::value>(stream, a, channels, x.shape, options.groups, given);
    });
  });
}

void group_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x,
                         const BatchNormChannels& channels, const GroupNormOptions& options,
                         const NormParts& given) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    const NormGradient<T> g{.dx = dx.as<T>(),
                            .dy = dy.as<T>(),
                            .x = x.as<T>(),
                            .sum = nullptr,
                            .dgamma = dgamma.as<float>(),
                            .dbeta = dbeta.as<float>(),
                            .by = NormChannels(channels),
                            .count = x.shape.rows() / x.shape[0],
                            .epsilon = options.epsilon};
    with_width<T>(packs_fit_all<T>(x, g.dx, g.dy), [&]<int w>(std::integral_constant<int, w>) {
      options.relu ? backward<ReluMask::input, w>(stream, g, x.shape, options.groups, given)
                   : backward<ReluMask::none, w>(stream, g, x.shape, options.groups, given);
    });
  });
}

TRIREME_CUDA_PROVIDES(ops, group_norm_forward, group_norm_backward);

}  // namespace trireme::ops::cuda
