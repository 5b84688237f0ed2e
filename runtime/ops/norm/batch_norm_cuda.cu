// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/norm/channel_norm_cuda.h"

namespace trireme::ops::cuda {
namespace {

// Accumulators of the running statistics; null: none.
struct Running {
  float *mean_sum, *variance_sum;
  float weight;

  explicit Running(const BatchNormRunning& from)
      : mean_sum(from.mean_sum.as<float>()),
        variance_sum(from.variance_sum.as<float>()),
        weight(from.weight) {}
  __device__ void collect(std::int64_t c, float mean, float variance, float correction) const {
    if (mean_sum == nullptr) return;
    mean_sum[c] += weight * mean;
    variance_sum[c] += weight * (variance * correction);
  }
};

__global__ void finish_statistics_kernel(float* mean, float* variance, Running running,
                                         float correction, const Moments* partial,
                                         ChannelTiles tiles) {
  const std::int64_t c = channel_of_thread();
  const Moments all = join_slices<MomentsJoin>(partial, tiles, c);
  if (threadIdx.x >= channels_per_block || c >= tiles.channels) return;
  const auto average = static_cast<float>(all.mean);
  const auto spread = static_cast<float>(all.squares / static_cast<double>(tiles.rows));
  mean[c] = average;
  variance[c] = spread;
  running.collect(c, average, spread, correction);
}

constexpr int part_threads = 128;  // one for each channel

// parts(count, 3, C)
__global__ void join_kernel(float* mean, float* variance, Running running, const float* parts,
                            std::int64_t count, std::int64_t channels) {
  const std::int64_t c = std::int64_t{blockIdx.x} * part_threads + threadIdx.x;
  if (c >= channels) return;
  PartsJoin all;
  for (std::int64_t p = 0; p < count; ++p)
    all.add(parts + p * 3 * channels + c, channels);
  mean[c] = static_cast<float>(all.moments.mean);
  variance[c] = static_cast<float>(all.moments.squares / all.values);
  running.collect(c, mean[c], variance[c], unbiased_factor(static_cast<std::int64_t>(all.values)));
}

// factors(3, C) of dy, of 1 and of x - mean in dx.
template <typename T>
__device__ void finish_gradient(float* factors, const NormGradient<T>& g, const GradientSums& all,
                                std::int64_t values, std::int64_t c, std::int64_t channels) {
  const ChannelGradient channel(all.dy, all.product, 1.0 / static_cast<double>(values),
                                g.by.gamma[c], g.by.variance[c], g.epsilon);
  factors[c] = channel.scale;
  factors[channels + c] = channel.offset;
  factors[2 * channels + c] = channel.slope;
  g.dgamma[c] += channel.dgamma;
  g.dbeta[c] += channel.dbeta;
}

template <typename T>
__global__ void finish_gradient_kernel(float* factors, NormGradient<T> g,
                                       const GradientSums* partial, ChannelTiles tiles) {
  const std::int64_t c = channel_of_thread();
  const GradientSums all = join_slices<GradientSumsJoin>(partial, tiles, c);
  if (threadIdx.x >= channels_per_block || c >= tiles.channels) return;
  finish_gradient(factors, g, all, tiles.rows, c, tiles.channels);
}

// parts(count, 2, C)
template <typename T>
__global__ void finish_parts_kernel(float* factors, NormGradient<T> g, const float* parts,
                                    std::int64_t count, std::int64_t values,
                                    std::int64_t channels) {
  const std::int64_t c = std::int64_t{blockIdx.x} * part_threads + threadIdx.x;
  if (c >= channels) return;
  GradientSums all{};
  for (std::int64_t p = 0; p < count; ++p)
    all.add(parts + p * 2 * channels + c, channels);
  finish_gradient(factors, g, all, values, c, channels);
}

__global__ void store_sums_kernel(float* sums, const GradientSums* partial, ChannelTiles tiles) {
  const std::int64_t c = channel_of_thread();
  const GradientSums all = join_slices<GradientSumsJoin>(partial, tiles, c);
  if (threadIdx.x >= channels_per_block || c >= tiles.channels) return;
  sums[c] = static_cast<float>(all.dy);
  sums[tiles.channels + c] = static_cast<float>(all.product);
}

template <int width, typename T>
void apply(Stream& stream, const NormApplication<T>& a, const Shape& shape) {
  const ChannelTiles tiles(shape.rows(), shape[3], width, ChannelTiles::map_blocks);
  const auto kernel = a.summand == nullptr ? apply_kernel<NormSummand::none, width, T>
                      : a.summand_by.gamma == nullptr
                          ? apply_kernel<NormSummand::plain, width, T>
                          : apply_kernel<NormSummand::normalized, width, T>;
  launch(stream, tiles.grid(), kernel, a, tiles);
}

Grid part_grid(std::int64_t channels) {
  return {.blocks = ceil_div(channels, part_threads), .threads = part_threads};
}

// Launches the sums' kernel; `extra` floats of scratch follow the partial sums.
template <ReluMask mask, int width, typename T>
GradientSums* start_sums(Stream& stream, const NormGradient<T>& g, const ChannelTiles& tiles,
                         std::int64_t extra) {
  const std::int64_t partial = tiles.slices * tiles.channels;
  auto* const sums = reinterpret_cast<GradientSums*>(
      CudaStream::of(stream).scratch(static_cast<std::size_t>(partial) * sizeof(GradientSums) +
                                     static_cast<std::size_t>(extra) * sizeof(float)));
  launch(stream, tiles.grid(), gradient_sums_kernel<mask, width, T>, sums, g, tiles);
  return sums;
}

template <ReluMask mask, int width, typename T>
void gradient(Stream& stream, const NormGradient<T>& g, const Shape& shape,
              const NormParts& given) {
  const std::int64_t channels = shape[3], rows = shape.rows();
  const ChannelTiles sums(rows, channels, width, ChannelTiles::sum_blocks);
  const ChannelTiles map(rows, channels, width, ChannelTiles::map_blocks);
  float* factors = nullptr;
  if (given.parts.empty()) {
    auto* const partial = start_sums<mask, width, T>(stream, g, sums, 3 * channels);
    factors = reinterpret_cast<float*>(partial + sums.slices * channels);
    launch(stream, channel_grid(channels), finish_gradient_kernel<T>, factors, g, partial, sums);
  } else {
    factors = reinterpret_cast<float*>(
        CudaStream::of(stream).scratch(static_cast<std::size_t>(3 * channels) * sizeof(float)));
    launch(stream, part_grid(channels), finish_parts_kernel<T>, factors, g, given.parts.as<float>(),
           given.parts.shape[0], given.values, channels);
  }
  // With ReluMask::sum, dy is already masked.
  constexpr ReluMask left = mask == ReluMask::sum ? ReluMask::none : mask;
  launch(stream, map.grid(), gradient_kernel<left, width, T>, g, factors, map);
}

}  // namespace

void batch_norm_statistics(Stream& stream, const Tensor& mean, const Tensor& variance,
                           const Tensor& x, const BatchNormRunning& running) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    const std::int64_t channels = x.shape[3], rows = x.shape.rows();
    with_width<T>(packs_fit_all<T>(x), [&]<int w>(std::integral_constant<int, w>) {
      const ChannelTiles tiles(rows, channels, w, ChannelTiles::sum_blocks);
      auto* const partial = reinterpret_cast<Moments*>(CudaStream::of(stream).scratch(
          static_cast<std::size_t>(tiles.slices * channels) * sizeof(Moments)));
      launch(stream, tiles.grid(), statistics_kernel<w, T>, partial, x.as<T>(), tiles);
      launch(stream, channel_grid(channels), finish_statistics_kernel, mean.as<float>(),
             variance.as<float>(), Running(running), unbiased_factor(rows), partial, tiles);
    });
  });
}

void batch_norm_join(Stream& stream, const Tensor& mean, const Tensor& variance,
                     const Tensor& parts, const BatchNormRunning& running) {
  launch(stream, part_grid(mean.count()), join_kernel, mean.as<float>(), variance.as<float>(),
         Running(running), parts.as<float>(), parts.shape[0], mean.count());
}

void batch_norm_apply(Stream& stream, const Tensor& y, const Tensor& x,
                      const BatchNormChannels& channels, const BatchNormOptions& options,
                      const BatchNormSummand& summand) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    const NormApplication<T> a{.y = y.as<T>(),
                               .x = x.as<T>(),
                               .summand = summand.x.empty() ? nullptr : summand.x.as<T>(),
                               .by = NormChannels(channels),
                               .summand_by = NormChannels(summand.channels),
                               .count = x.shape.rows(),
                               .options = options};
    with_width<T>(packs_fit_all<T>(x, a.y, a.summand),
                  [&](auto width) { apply<decltype(width)::value>(stream, a, x.shape); });
  });
}

void batch_norm_gradient_sums(Stream& stream, const Tensor& sums, const Tensor& dy, const Tensor& x,
                              const BatchNormChannels& channels, const BatchNormOptions& options) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    const NormGradient<T> g{.dx = nullptr,
                            .dy = dy.as<T>(),
                            .x = x.as<T>(),
                            .sum = nullptr,
                            .dgamma = nullptr,
                            .dbeta = nullptr,
                            .by = NormChannels(channels),
                            .count = x.shape.rows(),
                            .epsilon = options.epsilon};
    with_width<T>(packs_fit_all<T>(x, g.dy), [&]<int w>(std::integral_constant<int, w>) {
      const ChannelTiles tiles(x.shape.rows(), x.shape[3], w, ChannelTiles::sum_blocks);
      const auto* const partial = options.relu
                                      ? start_sums<ReluMask::input, w, T>(stream, g, tiles, 0)
                                      : start_sums<ReluMask::none, w, T>(stream, g, tiles, 0);
      launch(stream, channel_grid(x.shape[3]), store_sums_kernel, sums.as<float>(), partial, tiles);
    });
  });
}

void batch_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x,
                         const BatchNormChannels& channels, const BatchNormOptions& options,
                         const Tensor& sum, const NormParts& given) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    const NormGradient<T> g{.dx = dx.as<T>(),
                            .dy = dy.as<T>(),
                            .x = x.as<T>(),
                            .sum = sum.empty() ? nullptr : sum.as<T>(),
                            .dgamma = dgamma.as<float>(),
                            .dbeta = dbeta.as<float>(),
                            .by = NormChannels(channels),
                            .count = x.shape.rows(),
                            .epsilon = options.epsilon};
    with_width<T>(packs_fit_all<T>(x, g.dx, g.dy, g.sum),
                  [&]<int w>(std::integral_constant<int, w>) {
                    const auto run = g.sum != nullptr ? gradient<ReluMask::sum, w, T>
                                     : options.relu   ? gradient<ReluMask::input, w, T>
                                                      : gradient<ReluMask::none, w, T>;
                    run(stream, g, x.shape, given);
                  });
  });
}

TRIREME_CUDA_PROVIDES(ops, batch_norm_statistics, batch_norm_join, batch_norm_apply,
                      batch_norm_gradient_sums, batch_norm_backward);

}  // namespace trireme::ops::cuda
