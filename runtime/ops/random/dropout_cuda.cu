// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/random/dropout.h"

#include "runtime/ops/common/rows_cuda.h"
#include "runtime/ops/random/dropout_math.h"
#include "runtime/ops/random/philox_block.h"

namespace trireme::ops::cuda {
namespace {

// Elements drawn from one Philox block, see philox_block.h.
inline constexpr int block_elements = 4 * static_cast<int>(philox_counters);

template <typename T>
struct Dropout {
  T* y;
  const T* x;
  const std::int64_t* ids;
  const std::uint64_t* rng;
  std::uint64_t layer;
  std::uint32_t threshold;
  float scale;
  std::int64_t first;  // index in the whole batch, sample after sample
  std::int64_t count;
  std::int64_t per_sample;  // elements
};

// A thread draws `width` adjacent counters of a block, for four runs of `width` elements each.
// `aligned`: every such run inside is a pack.
template <int width, bool aligned, typename T>
__global__ void dropout_kernel(Dropout<T> p, std::int64_t first_sample, std::int64_t blocks,
                               std::int64_t items) {
  constexpr int threads_per_block = static_cast<int>(philox_counters) / width;
  const Philox key = dropout_key(p.rng[0], p.rng[1], p.layer);
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t item = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; item < items;
       item += stride) {
    const std::int64_t counter = item % threads_per_block * width;
    const std::int64_t block = item / threads_per_block % blocks;
    const std::int64_t sample = first_sample + item / threads_per_block / blocks;
    const auto id = static_cast<std::uint64_t>(p.ids[sample]);
    std::uint32_t words[4][width];
#pragma unroll
    for (int j = 0; j < width; ++j) {
      const auto drawn = key(id, static_cast<std::uint64_t>(block * philox_counters + counter + j));
#pragma unroll
      for (int w = 0; w < 4; ++w)
        words[w][j] = drawn[w];
    }
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const std::int64_t begin = block * block_elements + w * philox_counters + counter;
      const std::int64_t at = sample * p.per_sample + begin - p.first;  // in x and y
      const auto drop = [&](int j, T in) {
        T out;
        store(out, words[w][j] >= p.threshold ? load(in) * p.scale : 0.0F);
        return out;
      };
      if (aligned && at >= 0 && begin + width <= p.per_sample && at + width <= p.count) {
        auto pack = load_pack<width>(p.x + at);
#pragma unroll
        for (int j = 0; j < width; ++j)
          pack[j] = drop(j, pack[j]);
        store_pack(p.y + at, pack);
        continue;
      }
#pragma unroll
      for (int j = 0; j < width; ++j) {
        if (begin + j < p.per_sample && at + j >= 0 && at + j < p.count)
          p.y[at + j] = drop(j, p.x[at + j]);
      }
    }
  }
}

template <typename T>
void run(Stream& stream, const Dropout<T>& p) {
  constexpr int width = pack_width<T>;
  const std::int64_t first_sample = p.first / p.per_sample;
  const std::int64_t samples = (p.first + p.count - 1) / p.per_sample - first_sample + 1;
  const std::int64_t blocks = ceil_div(p.per_sample, block_elements);
  const std::int64_t items = samples * blocks * (philox_counters / width);
  const bool aligned = packs_fit(p.x, p.per_sample, width) && packs_fit(p.y, p.first, width);
  constexpr int threads = 256;
  launch(stream, grid_for(stream, items, threads, threads),
         aligned ? dropout_kernel<width, true, T> : dropout_kernel<width, false, T>, p,
         first_sample, blocks, items);
}

// Elements [first, first + y.count()) of the whole batch.
void drop_range(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& sample_ids,
                const Tensor& rng, std::uint64_t layer, float probability, std::int64_t first,
                std::int64_t per_sample) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    run(stream, Dropout<T>{y.as<T>(), x.as<T>(), sample_ids.as<std::int64_t>(),
                           rng.as<std::uint64_t>(), layer, dropout_threshold(probability),
                           1.0F / (1.0F - probability), first, y.count(), per_sample});
  });
}

}  // namespace

void dropout(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& sample_ids,
             const Tensor& rng, std::uint64_t layer, float probability) {
  if (y.count() == 0) return;
  drop_range(stream, y, x, sample_ids, rng, layer, probability, 0, y.count() / y.shape[0]);
}

void dropout_rows(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& sample_ids,
                  const Tensor& rng, std::uint64_t layer, float probability, std::int64_t first_row,
                  std::int64_t rows_per_sample) {
  if (y.count() == 0) return;
  const std::int64_t columns = y.shape.back();
  drop_range(stream, y, x, sample_ids, rng, layer, probability, first_row * columns,
             rows_per_sample * columns);
}

TRIREME_CUDA_PROVIDES(ops, dropout, dropout_rows);

}  // namespace trireme::ops::cuda
