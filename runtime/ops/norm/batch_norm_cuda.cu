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

constexpr int run = 32;  // rows that a thread sums before merging

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
  Moments all{};
  double values = 0;
  for (std::int64_t p = 0; p < count; ++p) {
    const float* const of = parts + p * 3 * channels + c;
    const double added = of[2 * channels];
    all = MomentsJoin(values, added)(all, {of[0], of[channels] * added});
    values += added;
  }
  mean[c] = static_cast<float>(all.mean);
  variance[c] = static_cast<float>(all.squares / values);
  running.collect(c, mean[c], variance[c], unbiased_factor(static_cast<std::int64_t>(values)));
}

struct Channels {
  const float *gamma, *beta, *mean, *variance;

  explicit Channels(const BatchNormChannels& from)
      : gamma(from.gamma.as<float>()),
        beta(from.beta.as<float>()),
        mean(from.mean.as<float>()),
        variance(from.variance.as<float>()) {}
};

// A thread's factors for normalising its pack of channels.
template <int width>
struct Normalization {
  float mean[width] = {}, scale[width] = {}, shift[width] = {};

  __device__ Normalization(const Channels& by, std::int64_t channel, float epsilon) {
    for (int k = 0; k < width; ++k) {
      const std::int64_t c = channel + k;
      mean[k] = by.mean[c];
      scale[k] = normalizing_scale(by.gamma[c], by.variance[c], epsilon);
      shift[k] = by.beta[c];
    }
  }
  __device__ float operator()(float x, int k) const {
    return normalized(x, mean[k], scale[k], shift[k]);
  }
};

enum class Summand { none, plain, normalized };

template <typename T>
struct Application {
  T* y;
  const T *x, *summand;
  Channels by, summand_by;
  BatchNormOptions options;
};

template <Summand added, int width, typename T>
__global__ void apply_kernel(Application<T> a, ChannelTiles tiles) {
  const ChannelPlace at(tiles, width);
  if (at.begin >= at.end) return;
  const Normalization<width> own(a.by, at.channel, a.options.epsilon);
  const Normalization<width> other(added == Summand::normalized ? a.summand_by : a.by, at.channel,
                                   a.options.epsilon);
  const bool relu = a.options.relu;
  for (std::int64_t row = at.begin; row < at.end; row += at.step) {
    const std::int64_t from = row * tiles.channels + at.channel;
    auto pack = load_pack<width>(a.x + from);
    Pack<T, width> summand;
    if constexpr (added != Summand::none) summand = load_pack<width>(a.summand + from);
    for (int k = 0; k < width; ++k) {
      float value = own(load(pack[k]), k);
      if constexpr (added == Summand::plain)
        value = rounded<T>(value) + load(summand[k]);
      else if constexpr (added == Summand::normalized)
        value = rounded<T>(value) + rounded<T>(other(load(summand[k]), k));
      store(pack[k], relu ? relu_of(value) : value);
    }
    store_at_once(a.y + from, pack);
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

// The tensor from which the ReLU's mask is recomputed.
enum class Mask { none, input, sum };

template <typename T>
struct Gradient {
  T* dx;
  T* dy;
  const T *x, *sum;
  float *dgamma, *dbeta;
  Channels by;
  float epsilon;
};

// partial(slices, C). With Mask::sum, dy is masked in place.
template <Mask mask, int width, typename T>
__global__ void gradient_sums_kernel(GradientSums* partial, Gradient<T> g, ChannelTiles tiles) {
  const ChannelPlace at(tiles, width);
  GradientSums own[width] = {};
  const Normalization<width> by(g.by, at.inside ? at.channel : 0, g.epsilon);
  for (std::int64_t row = at.begin; row < at.end; row += run * at.step) {
    const int length = run_length(at, row);
    float sum[width] = {}, product[width] = {};
#pragma unroll 2
    for (int i = 0; i < length; ++i) {
      const std::int64_t from = (row + i * at.step) * tiles.channels + at.channel;
      auto above = load_pack<width>(g.dy + from);
      const auto in = load_pack<width>(g.x + from);
      if constexpr (mask == Mask::sum) {
        const auto out = load_pack<width>(g.sum + from);
        for (int k = 0; k < width; ++k)
          store(above[k], load(out[k]) > 0.0F ? load(above[k]) : 0.0F);
        store_at_once(g.dy + from, above);
      }
      for (int k = 0; k < width; ++k) {
        float gradient = load(above[k]);
        if constexpr (mask == Mask::input) gradient = through_relu<T>(gradient, by(load(in[k]), k));
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

// factors(3, C) of dy, of 1 and of x - mean in dx.
template <typename T>
__device__ void finish_gradient(float* factors, const Gradient<T>& g, const GradientSums& all,
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
__global__ void finish_gradient_kernel(float* factors, Gradient<T> g, const GradientSums* partial,
                                       ChannelTiles tiles) {
  const std::int64_t c = channel_of_thread();
  const GradientSums all = join_slices<GradientSumsJoin>(partial, tiles, c);
  if (threadIdx.x >= channels_per_block || c >= tiles.channels) return;
  finish_gradient(factors, g, all, tiles.rows, c, tiles.channels);
}

// parts(count, 2, C)
template <typename T>
__global__ void finish_parts_kernel(float* factors, Gradient<T> g, const float* parts,
                                    std::int64_t count, std::int64_t values,
                                    std::int64_t channels) {
  const std::int64_t c = std::int64_t{blockIdx.x} * part_threads + threadIdx.x;
  if (c >= channels) return;
  GradientSums all{};
  for (std::int64_t p = 0; p < count; ++p) {
    all.dy += static_cast<double>(parts[p * 2 * channels + c]);
    all.product += static_cast<double>(parts[(p * 2 + 1) * channels + c]);
  }
  finish_gradient(factors, g, all, values, c, channels);
}

__global__ void store_sums_kernel(float* sums, const GradientSums* partial, ChannelTiles tiles) {
  const std::int64_t c = channel_of_thread();
  const GradientSums all = join_slices<GradientSumsJoin>(partial, tiles, c);
  if (threadIdx.x >= channels_per_block || c >= tiles.channels) return;
  sums[c] = static_cast<float>(all.dy);
  sums[tiles.channels + c] = static_cast<float>(all.product);
}

template <Mask mask, int width, typename T>
__global__ void gradient_kernel(Gradient<T> g, const float* factors, ChannelTiles tiles) {
  const ChannelPlace at(tiles, width);
  if (at.begin >= at.end) return;
  const Normalization<width> by(g.by, at.channel, g.epsilon);
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
      if constexpr (mask == Mask::input) gradient = through_relu<T>(gradient, by(in, k));
      store(pack[k], factor[k] * gradient - offset[k] - slope[k] * (in - by.mean[k]));
    }
    store_at_once(g.dx + from, pack);
  }
}

template <int width, typename T>
void apply(Stream& stream, const Application<T>& a, const Shape& shape) {
  const ChannelTiles tiles(shape.rows(), shape[3], width, ChannelTiles::map_blocks);
  const auto kernel = a.summand == nullptr            ? apply_kernel<Summand::none, width, T>
                      : a.summand_by.gamma == nullptr ? apply_kernel<Summand::plain, width, T>
                                                      : apply_kernel<Summand::normalized, width, T>;
  launch(stream, tiles.grid(), kernel, a, tiles);
}

trireme::cuda::Grid part_grid(std::int64_t channels) {
  return {.blocks = trireme::cuda::ceil_div(channels, part_threads), .threads = part_threads};
}

// Launches the sums' kernel; `extra` floats of scratch follow the partial sums.
template <Mask mask, int width, typename T>
GradientSums* start_sums(Stream& stream, const Gradient<T>& g, const ChannelTiles& tiles,
                         std::int64_t extra) {
  const std::int64_t partial = tiles.slices * tiles.channels;
  auto* const sums = reinterpret_cast<GradientSums*>(
      CudaStream::of(stream).scratch(static_cast<std::size_t>(partial) * sizeof(GradientSums) +
                                     static_cast<std::size_t>(extra) * sizeof(float)));
  launch(stream, tiles.grid(), gradient_sums_kernel<mask, width, T>, sums, g, tiles);
  return sums;
}

template <Mask mask, int width, typename T>
void gradient(Stream& stream, const Gradient<T>& g, const Shape& shape,
              const BatchNormSums& given) {
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
  // With Mask::sum, dy is already masked.
  constexpr Mask left = mask == Mask::sum ? Mask::none : mask;
  launch(stream, map.grid(), gradient_kernel<left, width, T>, g, factors, map);
}

// Whether x and every other operand of its shape can be taken in packs.
template <typename T, typename... Others>
bool packs_fit_all(const Tensor& x, const Others*... others) {
  return packs_fit(x.as<T>(), x.shape[3], pack_width<T>) &&
         (packs_fit(others, 0, pack_width<T>) && ...);
}

}  // namespace

void batch_norm_statistics(Stream& stream, const Tensor& mean, const Tensor& variance,
                           const Tensor& x, const BatchNormRunning& running) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t channels = x.shape[3], rows = x.shape.rows();
    with_width<T>(packs_fit_all<T>(x), [&](auto width) {
      constexpr int w = decltype(width)::value;
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
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    const Application<T> a{.y = y.as<T>(),
                           .x = x.as<T>(),
                           .summand = summand.x.empty() ? nullptr : summand.x.as<T>(),
                           .by = Channels(channels),
                           .summand_by = Channels(summand.channels),
                           .options = options};
    with_width<T>(packs_fit_all<T>(x, a.y, a.summand),
                  [&](auto width) { apply<decltype(width)::value>(stream, a, x.shape); });
  });
}

void batch_norm_gradient_sums(Stream& stream, const Tensor& sums, const Tensor& dy, const Tensor& x,
                              const BatchNormChannels& channels, const BatchNormOptions& options) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    const Gradient<T> g{.dx = nullptr,
                        .dy = dy.as<T>(),
                        .x = x.as<T>(),
                        .sum = nullptr,
                        .dgamma = nullptr,
                        .dbeta = nullptr,
                        .by = Channels(channels),
                        .epsilon = options.epsilon};
    with_width<T>(packs_fit_all<T>(x, g.dy), [&](auto width) {
      constexpr int w = decltype(width)::value;
      const ChannelTiles tiles(x.shape.rows(), x.shape[3], w, ChannelTiles::sum_blocks);
      const auto* const partial = options.relu ? start_sums<Mask::input, w, T>(stream, g, tiles, 0)
                                               : start_sums<Mask::none, w, T>(stream, g, tiles, 0);
      launch(stream, channel_grid(x.shape[3]), store_sums_kernel, sums.as<float>(), partial, tiles);
    });
  });
}

void batch_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x,
                         const BatchNormChannels& channels, const BatchNormOptions& options,
                         const Tensor& sum, const BatchNormSums& given) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    const Gradient<T> g{.dx = dx.as<T>(),
                        .dy = dy.as<T>(),
                        .x = x.as<T>(),
                        .sum = sum.empty() ? nullptr : sum.as<T>(),
                        .dgamma = dgamma.as<float>(),
                        .dbeta = dbeta.as<float>(),
                        .by = Channels(channels),
                        .epsilon = options.epsilon};
    with_width<T>(packs_fit_all<T>(x, g.dx, g.dy, g.sum), [&](auto width) {
      constexpr int w = decltype(width)::value;
      const auto run = g.sum != nullptr ? gradient<Mask::sum, w, T>
                       : options.relu   ? gradient<Mask::input, w, T>
                                        : gradient<Mask::none, w, T>;
      run(stream, g, x.shape, given);
    });
  });
}

TRIREME_CUDA_PROVIDES(ops, batch_norm_statistics);
TRIREME_CUDA_PROVIDES(ops, batch_norm_join);
TRIREME_CUDA_PROVIDES(ops, batch_norm_apply);
TRIREME_CUDA_PROVIDES(ops, batch_norm_gradient_sums);
TRIREME_CUDA_PROVIDES(ops, batch_norm_backward);

}  // namespace trireme::ops::cuda
