// SPDX-License-Identifier: Apache-2.0
// Private: layer norm (`centered`) and RMS norm over rows. A warp takes a short row, a block a long
// one; both hold it in registers, so memory is read once. Rows above `widest_held` are read again
// from the cache.
#pragma once

#include "runtime/ops/common/columns_cuda.h"
#include "runtime/ops/common/magnitude_cuda.h"

namespace trireme::ops::cuda {

// Elements of a row per thread: few, so that enough rows are in flight.
template <int threads>
inline constexpr int held_values = threads == 512 ? 16 : 8;
inline constexpr std::int64_t widest_held = std::int64_t{512} * held_values<512>;
template <int threads>
inline constexpr int norm_block = threads == warp_size ? 256 : threads;

// Minimum of resident blocks per multiprocessor; two for large ones with magnitudes, because three
// would spill registers.
template <int threads, bool measured>
inline constexpr int least_blocks = measured&& threads == 512 ? 2 : 0;

// Calls action(std::integral_constant<int, threads for a row>).
template <typename Action>
void with_row_threads(std::int64_t columns, Action&& action) {
  if (columns <= std::int64_t{32} * held_values<32>) {
    action(std::integral_constant<int, 32>{});
  } else if (columns <= std::int64_t{128} * held_values<128>) {
    action(std::integral_constant<int, 128>{});
  } else if (columns <= std::int64_t{256} * held_values<256>) {
    action(std::integral_constant<int, 256>{});
  } else {
    action(std::integral_constant<int, 512>{});
  }
}

template <int threads>
__device__ float row_sum(float value) {
  if constexpr (threads == warp_size) {
    return warp_reduce(value, Sum{});
  } else {
    return block_reduce<threads>(value, 0.0F, Sum{});
  }
}

// Calls f(k, column) for this thread's packs of a row: `held` of them in unrolled code, or with
// none held all of them, with k = 0.
template <int threads, int width, int held, typename F>
__device__ void each_pack(std::int64_t columns, F f) {
  const int thread = static_cast<int>(threadIdx.x) % threads;
  if constexpr (held > 0) {
#pragma unroll
    for (int k = 0; k < held; ++k) {
      const std::int64_t column = static_cast<std::int64_t>(k * threads + thread) * width;
      if (column < columns) f(k, column);
    }
  } else {
    for (std::int64_t column = thread * width; column < columns; column += threads * width)
      f(0, column);
  }
}

// The factors of a pack of a row, from NormForward or NormBackward.
template <bool centered, bool aligned, int width, typename Parameters>
__device__ Pack<float, width> scales_at(const Parameters& p, std::int64_t column) {
  auto gamma = row_floats<aligned, width>(p.gamma, column, p.columns);
  if constexpr (!centered) {
#pragma unroll
    for (int j = 0; j < width; ++j)
      gamma[j] += p.offset;
  }
  return gamma;
}

template <typename T>
struct NormForward {
  T* y;
  T* sum;       // x + residual, kept; null: x alone is normalised
  float* mean;  // null unless centered
  float* rstd;
  const T* x;
  const T* residual;
  const float* gamma;
  const float* beta;  // null unless centered
  std::int64_t rows;
  std::int64_t columns;
  float epsilon;
  float offset = 0;            // of gamma, unless centered
  LargestMagnitude magnitude;  // of y
};

// `seen`: this thread's stored values, if their largest magnitude is wanted (`measured`).
template <bool centered, int threads, bool held, bool aligned, bool measured, typename T>
__device__ void normalize_row(const NormForward<T>& p, std::int64_t row, MagnitudesSeen<T>& seen) {
  constexpr int width = pack_width<T>;
  constexpr int packs = held ? held_values<threads> / width : 0;
  const std::int64_t columns = p.columns;
  // The input of the normalisation, read again unless held.
  const T* const in = (p.sum == nullptr ? p.x : p.sum) + row * columns;
  Pack<T, width> values[held ? packs : 1] = {};
  const auto value_pack = [&](int k, std::int64_t column) {
    if constexpr (held) {
      return values[k];
    } else {
      return row_pack<aligned>(in, column, columns);
    }
  };

  float total = 0.0F;
  each_pack<threads, width, packs>(columns, [&](int k, std::int64_t column) {
    auto pack = row_pack<aligned>(p.x + row * columns, column, columns);
    if (p.sum != nullptr) {
      const auto add = row_pack<aligned>(p.residual + row * columns, column, columns);
#pragma unroll
      for (int j = 0; j < width; ++j)
        store(pack[j], load(pack[j]) + load(add[j]));
      store_row_pack<aligned>(p.sum + row * columns, column, columns, pack);
    }
    if constexpr (held) values[k] = pack;
#pragma unroll
    for (int j = 0; j < width; ++j) {
      const float v = load(pack[j]);
      total += centered ? v : v * v;
    }
  });
  total = row_sum<threads>(total);
  const float scale = 1.0F / static_cast<float>(columns);
  float center = 0.0F;
  if constexpr (centered) {
    center = total * scale;
    total = 0.0F;
    each_pack<threads, width, packs>(columns, [&](int k, std::int64_t column) {
      const auto pack = value_pack(k, column);
#pragma unroll
      for (int j = 0; j < width; ++j) {
        const float distance = load(pack[j]) - center;
        if (aligned || column + j < columns) total += distance * distance;
      }
    });
    total = row_sum<threads>(total);
  }
  const float inverse = 1.0F / sqrtf(total * scale + p.epsilon);
  each_pack<threads, width, packs>(columns, [&](int k, std::int64_t column) {
    auto pack = value_pack(k, column);
    const auto gamma = scales_at<centered, aligned, width>(p, column);
    Pack<float, width> beta{};
    if constexpr (centered) beta = row_floats<aligned, width>(p.beta, column, columns);
#pragma unroll
    for (int j = 0; j < width; ++j)
      store(pack[j], (load(pack[j]) - center) * inverse * gamma[j] + beta[j]);
    store_row_pack<aligned>(p.y + row * columns, column, columns, pack);
    if constexpr (measured) seen.template see<aligned>(pack, column, columns);
  });
  if (threadIdx.x % threads == 0) {
    if constexpr (centered) p.mean[row] = center;
    p.rstd[row] = inverse;
  }
}

template <bool centered, int threads, bool held, bool aligned, bool measured, typename T>
__global__ void __launch_bounds__(norm_block<threads>, least_blocks<threads, measured>)
    norm_forward_kernel(NormForward<T> p) {
  constexpr int rows_per_block = norm_block<threads> / threads;
  const std::int64_t row = std::int64_t{blockIdx.x} * rows_per_block + threadIdx.x / threads;
  MagnitudesSeen<T> seen;
  if (row < p.rows) normalize_row<centered, threads, held, aligned, measured>(p, row, seen);
  if constexpr (measured) p.magnitude.template leave<norm_block<threads>>(seen);
}

template <typename T>
struct NormBackward {
  T* dx;                      // null: only the gradients of the channels are wanted
  ColumnTargets<2> channels;  // dgamma and dbeta; null: only dx is wanted
  const T* dy;
  const T* x;
  const float* gamma;
  const float* mean;  // null unless centered
  const float* rstd;
  std::int64_t rows;
  std::int64_t columns;
  bool accumulate;
  float offset = 0;            // of gamma, unless centered
  LargestMagnitude magnitude;  // of dx
};

// `seen`: stored values, if their largest magnitude is wanted. With n = (x - mean) rstd and g = dy
// gamma: dx = rstd (g - mean(g) - n mean(g n)), without mean(g) unless centered.
template <bool centered, bool aligned, typename T, int width>
__device__ void store_dx(const NormBackward<T>& p, std::int64_t row, std::int64_t column,
                         const Pack<T, width>& dy, const Pack<T, width>& x, float center,
                         float inverse, float mean_g, float mean_gn, MagnitudesSeen<T>& seen) {
  T* const out = p.dx + row * p.columns;
  const auto gamma = scales_at<centered, aligned, width>(p, column);
  Pack<T, width> pack{};
  if (p.accumulate) pack = row_pack<aligned>(out, column, p.columns);
#pragma unroll
  for (int j = 0; j < width; ++j) {
    const float n = (load(x[j]) - center) * inverse;
    const float slope = centered ? load(dy[j]) * gamma[j] - mean_g : load(dy[j]) * gamma[j];
    const float gradient = inverse * (slope - n * mean_gn);
    store(pack[j], p.accumulate ? load(pack[j]) + gradient : gradient);
  }
  store_row_pack<aligned>(out, column, p.columns, pack);
  if (p.magnitude.wanted()) seen.template see<aligned>(pack, column, p.columns);
}

// Adds this block's rows to dgamma (and dbeta) in `channels`. One code for all combinations of
// outputs: another kernel might round differently.
template <bool centered, int threads, bool aligned, typename T>
__global__ void __launch_bounds__(norm_block<threads>)
    norm_backward_kernel(NormBackward<T> p, BlockSums<centered ? 2 : 1> channels) {
  constexpr int width = pack_width<T>;
  constexpr int packs = held_values<threads> / width;
  constexpr int groups = norm_block<threads> / threads;
  constexpr int outputs = centered ? 2 : 1;
  // Prefetches the next row while this one is computed, if registers suffice.
  constexpr bool ahead = threads < 512;
  const int group = static_cast<int>(threadIdx.x) / threads;
  const std::int64_t columns = p.columns;
  const float scale = 1.0F / static_cast<float>(columns);
  float sums[outputs][packs][width] = {};
  MagnitudesSeen<T> seen;

  Pack<T, width> dy[packs], x[packs];
  const auto read_row = [&](std::int64_t row, auto& dy_to, auto& x_to) {
    if (row >= p.rows) return;
    each_pack<threads, width, packs>(columns, [&](int k, std::int64_t column) {
      dy_to[k] = row_pack<aligned>(p.dy + row * columns, column, columns);
      x_to[k] = row_pack<aligned>(p.x + row * columns, column, columns);
    });
  };
  const std::int64_t step = std::int64_t{gridDim.x} * groups;
  const std::int64_t first = std::int64_t{blockIdx.x} * groups + group;
  if constexpr (ahead) read_row(first, dy, x);
  for (std::int64_t row = first; row < p.rows; row += step) {
    const float center = centered ? p.mean[row] : 0.0F;
    const float inverse = p.rstd[row];
    Pack<T, width> next_dy[packs], next_x[packs];
    if constexpr (ahead) {
      read_row(row + step, next_dy, next_x);
    } else {
      read_row(row, dy, x);
    }
    float sum_g = 0.0F, sum_gn = 0.0F;
    each_pack<threads, width, packs>(columns, [&](int k, std::int64_t column) {
      const auto gamma = scales_at<centered, aligned, width>(p, column);
#pragma unroll
      for (int j = 0; j < width; ++j) {
        const float d = load(dy[k][j]);
        const float n = (load(x[k][j]) - center) * inverse;
        sums[0][k][j] += d * n;
        if constexpr (centered) {
          sums[1][k][j] += d;
          sum_g += d * gamma[j];
        }
        sum_gn += d * gamma[j] * n;
      }
    });
    if constexpr (centered) sum_g = row_sum<threads>(sum_g);
    sum_gn = row_sum<threads>(sum_gn);
    if (p.dx != nullptr) {
      each_pack<threads, width, packs>(columns, [&](int k, std::int64_t column) {
        store_dx<centered, aligned>(p, row, column, dy[k], x[k], center, inverse, sum_g * scale,
                                    sum_gn * scale, seen);
      });
    }
    if constexpr (ahead) {
#pragma unroll
      for (int k = 0; k < packs; ++k) {
        dy[k] = next_dy[k];
        x[k] = next_x[k];
      }
    }
  }

  p.magnitude.template leave<norm_block<threads>>(seen);
  if (channels.partial == nullptr) return;
  __shared__ float shared[groups > 1 ? column_threads * width : 1];
#pragma unroll
  for (int o = 0; o < outputs; ++o) {
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if constexpr (groups > 1) join_groups(sums[o][k], shared);
      const std::int64_t column =
          static_cast<std::int64_t>(k * threads + threadIdx.x % threads) * width;
      Pack<float, width> pack;
#pragma unroll
      for (int j = 0; j < width; ++j)
        pack[j] = sums[o][k][j];
      if (group == 0 && column < columns) store_pack(channels.row(blockIdx.x, o) + column, pack);
    }
  }
  add_block_sums(channels);
}

// dx of rows too long for registers: one block each.
template <bool centered, bool aligned, typename T>
__global__ void __launch_bounds__(512) norm_wide_dx_kernel(NormBackward<T> p) {
  constexpr int threads = 512;
  constexpr int width = pack_width<T>;
  const std::int64_t row = blockIdx.x;
  const std::int64_t columns = p.columns;
  const float center = centered ? p.mean[row] : 0.0F;
  const float inverse = p.rstd[row];
  const auto each = [&](auto f) {
    each_pack<threads, width, 0>(columns, [&](int, std::int64_t column) {
      f(column, row_pack<aligned>(p.dy + row * columns, column, columns),
        row_pack<aligned>(p.x + row * columns, column, columns));
    });
  };
  float sum_g = 0.0F, sum_gn = 0.0F;
  each([&](std::int64_t column, const auto& dy, const auto& x) {
    const auto gamma = scales_at<centered, aligned, width>(p, column);
#pragma unroll
    for (int j = 0; j < width; ++j) {
      const float g = load(dy[j]) * gamma[j];
      sum_g += g;
      sum_gn += g * ((load(x[j]) - center) * inverse);
    }
  });
  const float scale = 1.0F / static_cast<float>(columns);
  if constexpr (centered) sum_g = row_sum<threads>(sum_g);
  sum_gn = row_sum<threads>(sum_gn);
  MagnitudesSeen<T> seen;
  each([&](std::int64_t column, const auto& dy, const auto& x) {
    store_dx<centered, aligned>(p, row, column, dy, x, center, inverse, sum_g * scale,
                                sum_gn * scale, seen);
  });
  p.magnitude.template leave<threads>(seen);
}

// dgamma (and dbeta) of such rows: column sums of dy n (and of dy).
template <bool centered, bool aligned, typename T>
struct NormChannelTerms {
  NormBackward<T> p;

  template <int outputs, int width>
  __device__ void operator()(std::int64_t row, std::int64_t column,
                             float (&sums)[outputs][width]) const {
    const float center = centered ? p.mean[row] : 0.0F;
    const float inverse = p.rstd[row];
    const auto dy = row_pack<aligned>(p.dy + row * p.columns, column, p.columns);
    const auto x = row_pack<aligned>(p.x + row * p.columns, column, p.columns);
#pragma unroll
    for (int j = 0; j < width; ++j) {
      sums[0][j] += load(dy[j]) * ((load(x[j]) - center) * inverse);
      if constexpr (centered) sums[1][j] += load(dy[j]);
    }
  }
};

template <bool centered, typename T>
void norm_forward(Stream& stream, const NormForward<T>& p) {
  const auto aligns = [&](const auto* data) { return rows_align<T>(data, p.columns); };
  const bool all = aligns(p.y) && aligns(p.sum) && aligns(p.x) && aligns(p.residual) &&
                   aligns(p.gamma) && aligns(p.beta);
  const auto launch_kernel = [&](auto aligned, auto measured) {
    if (p.columns > widest_held) {
      launch(stream, {.blocks = p.rows, .threads = 512},
             norm_forward_kernel<centered, 512, false, aligned, measured, T>, p);
      return;
    }
    with_row_threads(p.columns, [&](auto threads) {
      constexpr int block = norm_block<threads>;
      launch(stream, {.blocks = ceil_div(p.rows, block / threads), .threads = block},
             norm_forward_kernel<centered, threads, true, aligned, measured, T>, p);
    });
  };
  with_flag(all, [&](auto aligned) {
    with_flag(p.magnitude.wanted(), [&](auto measured) { launch_kernel(aligned, measured); });
  });
}

template <bool centered, typename T>
void norm_backward(Stream& stream, const NormBackward<T>& p) {
  constexpr int outputs = centered ? 2 : 1;
  ColumnTargets<outputs> targets;
  std::copy_n(p.channels.to, outputs, targets.to);
  const bool channels = targets.to[0] != nullptr;
  const auto aligns = [&](const auto* data) { return rows_align<T>(data, p.columns); };
  with_flag(aligns(p.dx) && aligns(p.dy) && aligns(p.x) && aligns(p.gamma), [&](auto aligned) {
    if (p.columns > widest_held) {
      if (p.dx != nullptr) {
        launch(stream, {.blocks = p.rows, .threads = 512},
               norm_wide_dx_kernel<centered, aligned, T>, p);
      }
      if (channels) {
        add_column_sums<outputs, pack_width<T>>(
            stream, targets, NormChannelTerms<centered, aligned, T>{p}, p.rows, p.columns);
      }
      return;
    }
    with_row_threads(p.columns, [&](auto threads) {
      constexpr int block = norm_block<threads>;
      // Resident blocks of a Hopper GPU: four per multiprocessor, three of 256 threads per row, one
      // of 512.
      constexpr std::int64_t max_blocks = threads <= 128 ? 528 : threads == 256 ? 396 : 132;
      const std::int64_t blocks = std::min(ceil_div(p.rows, block / threads), max_blocks);
      BlockSums<outputs> sums{};
      if (channels) sums = room_for_block_sums(stream, targets, blocks, p.columns, pack_width<T>);
      launch(stream, {.blocks = blocks, .threads = block},
             norm_backward_kernel<centered, threads, aligned, T>, p, sums);
    });
  });
}

}  // namespace trireme::ops::cuda
