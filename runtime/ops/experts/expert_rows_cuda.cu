// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/common/rows_cuda.h"
#include "runtime/ops/experts/expert_rows_math.h"

namespace trireme::ops::cuda {
namespace {

constexpr int order_warps = 16;
constexpr int order_threads = warp_size * order_warps;
constexpr int copy_threads = 256;

// A block for each expert: it counts the slots of experts before it, then gives its own their
// places in order. Each warp has a run of slots.
__global__ void __launch_bounds__(order_threads)
    order_kernel(std::int32_t* places, std::int32_t* offsets, const std::int32_t* slots,
                 std::int64_t count) {
  __shared__ int own[order_warps], before[order_warps];
  const int expert = static_cast<int>(blockIdx.x), lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const std::int64_t run = (count + order_threads - 1) / order_threads * warp_size;
  const std::int64_t first = warp * run, end = first + run < count ? first + run : count;
  int mine = 0, less = 0;
  for (std::int64_t i = first; i < end; i += warp_size) {
    const int slot = i + lane < end ? slots[i + lane] : INT32_MAX;
    mine += __popc(__ballot_sync(whole_warp, slot == expert));
    less += __popc(__ballot_sync(whole_warp, slot < expert));
  }
  if (lane == 0) {
    own[warp] = mine;
    before[warp] = less;
  }
  __syncthreads();
  int offset = 0;
  for (int w = 0; w < order_warps; ++w)
    offset += before[w];
  if (threadIdx.x == 0) {
    offsets[expert] = offset;
    if (blockIdx.x + 1 == gridDim.x) offsets[expert + 1] = static_cast<std::int32_t>(count);
  }
  for (int w = 0; w < warp; ++w)
    offset += own[w];
  for (std::int64_t i = first; i < end; i += warp_size) {
    const bool here = i + lane < end && slots[i + lane] == expert;
    const unsigned found = __ballot_sync(whole_warp, here);
    if (here) places[i + lane] = offset + __popc(found & ((1U << lane) - 1U));
    offset += __popc(found);
  }
}

// One slot's row per row of `packs`.
template <typename T, int width>
__global__ void spread_kernel(T* rows, const T* x, const std::int32_t* places, std::int64_t slots,
                              RowPacks packs) {
  packs.each([&](std::int64_t i, std::int64_t pack) {
    const std::int64_t columns = std::int64_t{packs.per_row} * width;
    store_at_once(rows + places[i] * columns + pack * width,
                  load_pack<width>(x + i / slots * columns + pack * width));
  });
}

template <typename T, int width>
__global__ void collect_kernel(T* y, const T* rows, const std::int32_t* places,
                               const float* weights, const T* residual, std::int64_t slots,
                               RowPacks packs) {
  packs.each([&](std::int64_t token, std::int64_t pack) {
    const std::int64_t columns = std::int64_t{packs.per_row} * width;
    float sums[width] = {};
    for (std::int64_t j = token * slots; j < (token + 1) * slots; ++j) {
      const auto row = load_pack<width>(rows + places[j] * columns + pack * width);
      const float weight = weights == nullptr ? 1.0F : weights[j];
#pragma unroll
      for (int i = 0; i < width; ++i)
        sums[i] += weight * load(row[i]);
    }
    const std::int64_t at = token * columns + pack * width;
    Pack<T, width> before{}, result;
    if (residual != nullptr) before = load_pack<width>(residual + at);
#pragma unroll
    for (int i = 0; i < width; ++i)
      store(result[i], residual == nullptr ? sums[i] : load(before[i]) + sums[i]);
    store_at_once(y + at, result);
  });
}

// One thread per group; sources and their local experts are few.
__global__ void __launch_bounds__(order_threads)
    received_kernel(std::int32_t* offsets, const std::int32_t* counts, std::int64_t sources,
                    std::int64_t parts, std::int64_t all, std::int64_t experts, ReceivedRows rows) {
  for (std::int64_t i = threadIdx.x; i < sources * experts; i += blockDim.x)
    offsets[i + 1] = rows_of_group(counts, parts, all, i / experts, i % experts, rows);
  __syncthreads();
  if (threadIdx.x > 0) return;
  offsets[0] = 0;
  for (std::int64_t i = 0; i < sources * experts; ++i)
    offsets[i + 1] += offsets[i];
}

}  // namespace

void order_slots(Stream& stream, const Tensor& places, const Tensor& offsets, const Tensor& slots) {
  launch(stream, {.blocks = offsets.shape[0] - 1, .threads = order_threads}, order_kernel,
         places.as<std::int32_t>(), offsets.as<std::int32_t>(), slots.as<std::int32_t>(),
         slots.count());
}

void spread_rows(Stream& stream, const Tensor& rows, const Tensor& x, const Tensor& places) {
  const std::int64_t columns = x.shape[1];
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    const bool fit = packs_fit(rows.as<T>(), columns, pack_width<T>) &&
                     packs_fit(x.as<T>(), columns, pack_width<T>);
    with_width<T>(fit, [&](auto width) {
      const RowPacks packs(places.count(), columns, width);
      launch(stream, grid_for(stream, packs.count(), copy_threads, copy_threads),
             spread_kernel<T, width>, rows.as<T>(), x.as<T>(), places.as<std::int32_t>(),
             places.shape[1], packs);
    });
  });
}

void collect_rows(Stream& stream, const Tensor& y, const Tensor& rows, const Tensor& places,
                  const Tensor& weights, const Tensor& residual) {
  const std::int64_t columns = y.shape[1];
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    const T* const before = residual.empty() ? nullptr : residual.as<T>();
    const bool fit = packs_fit(rows.as<T>(), columns, pack_width<T>) &&
                     packs_fit(y.as<T>(), columns, pack_width<T>) &&
                     packs_fit(before, columns, pack_width<T>);
    with_width<T>(fit, [&](auto width) {
      const RowPacks packs(places.shape[0], columns, width);
      launch(stream, grid_for(stream, packs.count(), copy_threads, copy_threads),
             collect_kernel<T, width>, y.as<T>(), rows.as<T>(), places.as<std::int32_t>(),
             weights.empty() ? nullptr : weights.as<float>(), before, places.shape[1], packs);
    });
  });
}

void received_offsets(Stream& stream, const Tensor& offsets, const Tensor& counts,
                      const ReceivedRows& rows) {
  const std::int64_t sources = counts.shape[0];
  launch(stream, {.blocks = 1, .threads = order_threads}, received_kernel,
         offsets.as<std::int32_t>(), counts.as<std::int32_t>(), sources, counts.shape[1],
         counts.shape[2], (offsets.count() - 1) / sources, rows);
}

TRIREME_CUDA_PROVIDES(ops, order_slots, spread_rows, collect_rows, received_offsets);

}  // namespace trireme::ops::cuda
