// SPDX-License-Identifier: Apache-2.0
// Sums in f32 over runs of rows, joined in double. Statistics are summed around a pivot, the mean
// of the rows so far, so that squares do not cancel.
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/channels_cuda.h"
#include "runtime/ops/norm/batch_norm.h"
#include "runtime/ops/norm/batch_norm_math.h"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::launch;

constexpr int run = 32;  // rows that a thread sums before their sum is joined

// Rows of the run that begins at `row`.
__device__ int run_length(const ChannelPlace& at, std::int64_t row) {
  return static_cast<int>(
      std::min<std::int64_t>(run, trireme::cuda::ceil_div(at.end - row, at.step)));
}

// partial(slices, C)
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
  for (std::int64_t row = at.begin; row < at.end; row += run * at.step) {
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

__global__ void finish_statistics_kernel(float* mean, float* variance, const Moments* partial,
                                         ChannelTiles tiles) {
  const std::int64_t c = channel_of_thread();
  const Moments all = join_slices<MomentsJoin>(partial, tiles, c);
  if (threadIdx.x >= channels_per_block || c >= tiles.channels) return;
  mean[c] = static_cast<float>(all.mean);
  variance[c] = static_cast<float>(all.squares / static_cast<double>(tiles.rows));
}

struct Normalization {
  const float *mean, *variance, *gamma, *beta;
  BatchNormOptions options;
};

template <int width, typename T>
__global__ void normalize_kernel(T* y, const T* x, ChannelTiles tiles, Normalization by) {
  const ChannelPlace at(tiles, width);
  if (at.begin >= at.end) return;
  float mean[width], scale[width], shift[width];
  for (int k = 0; k < width; ++k) {
    const std::int64_t c = at.channel + k;
    mean[k] = by.mean[c];
    scale[k] = normalizing_scale(by.gamma[c], by.variance[c], by.options.epsilon);
    shift[k] = by.beta[c];
  }
  const bool relu = by.options.relu;
  for (std::int64_t row = at.begin; row < at.end; row += at.step) {
    auto pack = load_pack<width>(x + row * tiles.channels + at.channel);
    for (int k = 0; k < width; ++k) {
      const float value = (load(pack[k]) - mean[k]) * scale[k] + shift[k];
      store(pack[k], relu && value < 0.0F ? 0.0F : value);
    }
    store_pack(y + row * tiles.channels + at.channel, pack);
  }
}

// Sums of dy and of dy * (x - mean).
struct GradientSums {
  double dy, product;
};
struct GradientSumsJoin {
  __device__ GradientSumsJoin(double, double) {}
  __device__ GradientSums operator()(const GradientSums& a, const GradientSums& b) const {
    return {a.dy + b.dy, a.product + b.product};
  }
};

// The gradient that reaches the normalised values: masked where ReLU cut it off.
template <bool relu, int width, typename T>
__device__ void load_masked(float (&gradient)[width], const T* dy, const T* y, std::int64_t at) {
  const auto above = load_pack<width>(dy + at);
  if constexpr (relu) {
    const auto out = load_pack<width>(y + at);
    for (int k = 0; k < width; ++k)
      gradient[k] = load(out[k]) > 0.0F ? load(above[k]) : 0.0F;
  } else {
    for (int k = 0; k < width; ++k)
      gradient[k] = load(above[k]);
  }
}

// partial(slices, C)
template <bool relu, int width, typename T>
__global__ void gradient_sums_kernel(GradientSums* partial, const T* dy, const T* x, const T* y,
                                     const float* mean, ChannelTiles tiles) {
  const ChannelPlace at(tiles, width);
  GradientSums own[width] = {};
  float centre[width] = {};
  for (int k = 0; k < width && at.inside; ++k)
    centre[k] = mean[at.channel + k];
  for (std::int64_t row = at.begin; row < at.end; row += run * at.step) {
    const int length = run_length(at, row);
    float sum[width] = {}, product[width] = {};
#pragma unroll 2
    for (int i = 0; i < length; ++i) {
      const std::int64_t from = (row + i * at.step) * tiles.channels + at.channel;
      float gradient[width];
      load_masked<relu>(gradient, dy, y, from);
      const auto pack = load_pack<width>(x + from);
      for (int k = 0; k < width; ++k) {
        sum[k] += gradient[k];
        product[k] += gradient[k] * (load(pack[k]) - centre[k]);
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

struct Channels {
  float *dgamma, *dbeta;
  const float *gamma, *mean, *variance;
  float epsilon;
};

// factors(3, C): what dx takes of dy, of 1 and of x - mean.
__global__ void finish_gradient_kernel(float* factors, Channels by, const GradientSums* partial,
                                       ChannelTiles tiles) {
  const std::int64_t c = channel_of_thread();
  const GradientSums all = join_slices<GradientSumsJoin>(partial, tiles, c);
  if (threadIdx.x >= channels_per_block || c >= tiles.channels) return;
  const ChannelGradient channel(all.dy, all.product, 1.0 / static_cast<double>(tiles.rows),
                                by.gamma[c], by.variance[c], by.epsilon);
  factors[c] = channel.scale;
  factors[tiles.channels + c] = channel.offset;
  factors[2 * tiles.channels + c] = channel.slope;
  by.dgamma[c] += channel.dgamma;
  by.dbeta[c] += channel.dbeta;
}

template <bool relu, int width, typename T>
__global__ void gradient_kernel(T* dx, const T* dy, const T* x, const T* y, const float* mean,
                                const float* factors, ChannelTiles tiles) {
  const ChannelPlace at(tiles, width);
  if (at.begin >= at.end) return;
  float centre[width], scale[width], offset[width], slope[width];
  for (int k = 0; k < width; ++k) {
    const std::int64_t c = at.channel + k;
    centre[k] = mean[c];
    scale[k] = factors[c];
    offset[k] = factors[tiles.channels + c];
    slope[k] = factors[2 * tiles.channels + c];
  }
  for (std::int64_t row = at.begin; row < at.end; row += at.step) {
    const std::int64_t from = row * tiles.channels + at.channel;
    float gradient[width];
    load_masked<relu>(gradient, dy, y, from);
    auto pack = load_pack<width>(x + from);
    for (int k = 0; k < width; ++k)
      store(pack[k], scale[k] * gradient[k] - offset[k] - slope[k] * (load(pack[k]) - centre[k]));
    store_pack(dx + from, pack);
  }
}

template <int width, typename T>
void normalize(Stream& stream, T* y, const T* x, const Shape& shape, const Normalization& by) {
  const ChannelTiles tiles(shape.count() / shape[3], shape[3], width, ChannelTiles::map_blocks);
  launch(stream, tiles.grid(), normalize_kernel<width, T>, y, x, tiles, by);
}

template <bool relu, int width, typename T>
void gradient(Stream& stream, T* dx, const T* dy, const T* x, const T* y, const Shape& shape,
              const Channels& by) {
  const std::int64_t channels = shape[3], rows = shape.count() / channels;
  const ChannelTiles sums(rows, channels, width, ChannelTiles::sum_blocks);
  const ChannelTiles map(rows, channels, width, ChannelTiles::map_blocks);
  const auto partial_bytes =
      static_cast<std::size_t>(sums.slices * channels) * sizeof(GradientSums);
  std::byte* const scratch = CudaStream::of(stream).scratch(
      partial_bytes + static_cast<std::size_t>(3 * channels) * sizeof(float));
  auto* const partial = reinterpret_cast<GradientSums*>(scratch);
  auto* const factors = reinterpret_cast<float*>(scratch + partial_bytes);
  launch(stream, sums.grid(), gradient_sums_kernel<relu, width, T>, partial, dy, x, y, by.mean,
         sums);
  launch(stream, channel_grid(channels), finish_gradient_kernel, factors, by, partial, sums);
  launch(stream, map.grid(), gradient_kernel<relu, width, T>, dx, dy, x, y, by.mean, factors, map);
}

__global__ void collect_kernel(float* mean_sum, float* variance_sum, const float* mean,
                               const float* variance, std::int64_t channels, float correction,
                               float weight) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  mean_sum[c] += weight * mean[c];
  variance_sum[c] += weight * (variance[c] * correction);
}

}  // namespace

void batch_norm_forward(Stream& stream, const Tensor& y, const Tensor& mean, const Tensor& variance,
                        const Tensor& x, const Tensor& gamma, const Tensor& beta,
                        const BatchNormOptions& options) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t channels = x.shape[3], rows = x.count() / channels;
    const bool fits =
        packs_fit(x.as<T>(), channels, pack_width<T>) && packs_fit(y.as<T>(), 0, pack_width<T>);
    with_width<T>(fits, [&](auto width) {
      constexpr int w = decltype(width)::value;
      const ChannelTiles tiles(rows, channels, w, ChannelTiles::sum_blocks);
      auto* const partial = reinterpret_cast<Moments*>(CudaStream::of(stream).scratch(
          static_cast<std::size_t>(tiles.slices * channels) * sizeof(Moments)));
      launch(stream, tiles.grid(), statistics_kernel<w, T>, partial, x.as<T>(), tiles);
      launch(stream, channel_grid(channels), finish_statistics_kernel, mean.as<float>(),
             variance.as<float>(), partial, tiles);
      normalize<w>(
          stream, y.as<T>(), x.as<T>(), x.shape,
          {mean.as<float>(), variance.as<float>(), gamma.as<float>(), beta.as<float>(), options});
    });
  });
}

void batch_norm_inference(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& gamma,
                          const Tensor& beta, const Tensor& mean, const Tensor& variance,
                          const BatchNormOptions& options) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    const bool fits =
        packs_fit(x.as<T>(), x.shape[3], pack_width<T>) && packs_fit(y.as<T>(), 0, pack_width<T>);
    with_width<T>(fits, [&](auto width) {
      normalize<decltype(width)::value>(
          stream, y.as<T>(), x.as<T>(), x.shape,
          {mean.as<float>(), variance.as<float>(), gamma.as<float>(), beta.as<float>(), options});
    });
  });
}

void batch_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x, const Tensor& y,
                         const Tensor& gamma, const Tensor& mean, const Tensor& variance,
                         const BatchNormOptions& options) {
  const Channels by{dgamma.as<float>(), dbeta.as<float>(),    gamma.as<float>(),
                    mean.as<float>(),   variance.as<float>(), options.epsilon};
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    const T* const out = options.relu ? y.as<T>() : nullptr;
    const bool fits = packs_fit(x.as<T>(), x.shape[3], pack_width<T>) &&
                      packs_fit(dx.as<T>(), 0, pack_width<T>) &&
                      packs_fit(dy.as<T>(), 0, pack_width<T>) && packs_fit(out, 0, pack_width<T>);
    with_width<T>(fits, [&](auto width) {
      constexpr int w = decltype(width)::value;
      const auto run = options.relu ? gradient<true, w, T> : gradient<false, w, T>;
      run(stream, dx.as<T>(), dy.as<T>(), x.as<T>(), out, x.shape, by);
    });
  });
}

void batch_norm_collect(Stream& stream, const Tensor& mean_sum, const Tensor& variance_sum,
                        const Tensor& mean, const Tensor& variance, std::int64_t n, float weight) {
  const std::int64_t channels = mean.count();
  launch(stream,
         {.blocks = trireme::cuda::ceil_div(channels, channel_threads), .threads = channel_threads},
         collect_kernel, mean_sum.as<float>(), variance_sum.as<float>(), mean.as<float>(),
         variance.as<float>(), channels, unbiased_factor(n), weight);
}

TRIREME_CUDA_PROVIDES(ops, batch_norm_forward);
TRIREME_CUDA_PROVIDES(ops, batch_norm_inference);
TRIREME_CUDA_PROVIDES(ops, batch_norm_backward);
TRIREME_CUDA_PROVIDES(ops, batch_norm_collect);

}  // namespace trireme::ops::cuda
