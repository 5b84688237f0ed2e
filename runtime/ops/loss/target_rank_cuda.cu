// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/loss/target_rank.h"

#include <algorithm>

#include "runtime/ops/loss/cross_entropy_row_cuda.h"

namespace trireme::ops::cuda {
namespace {

template <typename T>
struct RankBlock {
  const T* logits;
  const std::int32_t* targets;
  std::int64_t rows;
  std::int64_t width;
  std::int64_t filled;  // columns that are not padding
  std::int64_t first;

  RankBlock(const Tensor& tensor, const Tensor& labels, const ClassBlock& block)
      : logits(tensor.as<T>()),
        targets(labels.as<std::int32_t>()),
        rows(tensor.shape[0]),
        width(tensor.shape[1]),
        filled(std::clamp(block.classes - block.first, std::int64_t{0}, tensor.shape[1])),
        first(block.first) {}
};

constexpr int value_threads = 128;

template <typename T>
__global__ void __launch_bounds__(value_threads)
    target_logits_kernel(float* values, RankBlock<T> block, bool accumulate) {
  for (std::int64_t row = std::int64_t{blockIdx.x} * value_threads + threadIdx.x; row < block.rows;
       row += std::int64_t{gridDim.x} * value_threads) {
    const std::int64_t target = block.targets[row], local = target - block.first;
    const bool here = target >= 0 && local >= 0 && local < block.filled;
    const float value = here ? load(block.logits[row * block.width + local]) : -INFINITY;
    values[row] = accumulate ? (values[row] < value ? value : values[row]) : value;
  }
}

template <int threads, bool aligned, typename T>
__global__ void __launch_bounds__(threads)
    target_ranks_kernel(float* ranks, const float* values, RankBlock<T> block, bool accumulate) {
  const std::int64_t target = block.targets[blockIdx.x], local = target - block.first;
  const float value = values[blockIdx.x];
  int before = 0;
  each_row_pack<threads, aligned>(block.logits + blockIdx.x * block.width, block.filled,
                                  [&](std::int64_t column, const auto& pack) {
#pragma unroll
                                    for (int j = 0; j < pack_width<T>; ++j) {
                                      if (column + j >= block.filled) continue;
                                      const float logit = load(pack[j]);
                                      if (logit > value || (logit == value && column + j < local))
                                        ++before;
                                    }
                                  });
  before = block_reduce<threads>(before, 0, Sum{});
  if (threadIdx.x != 0) return;
  const float rank = target < 0 ? INFINITY : static_cast<float>(before);
  ranks[blockIdx.x] = accumulate ? ranks[blockIdx.x] + rank : rank;
}

// One block; sums of integers, so the order does not matter.
__global__ void __launch_bounds__(long_row_threads)
    count_below_kernel(double* total, const float* values, std::int64_t count, float limit) {
  double mine = 0.0;
  for (std::int64_t i = threadIdx.x; i < count; i += long_row_threads)
    mine += values[i] < limit ? 1.0 : 0.0;
  const double all = block_reduce<long_row_threads>(mine, 0.0, Sum{});
  if (threadIdx.x == 0) *total += all;
}

}  // namespace

void target_logits(Stream& stream, const Tensor& values, const Tensor& logits,
                   const Tensor& targets, const ClassBlock& block, bool accumulate) {
  visit_compute_dtype(logits.dtype, [&]<typename T>(T) {
    launch(stream, grid_for(stream, logits.shape[0], value_threads, value_threads),
           target_logits_kernel<T>, values.as<float>(), RankBlock<T>(logits, targets, block),
           accumulate);
  });
}

void target_ranks(Stream& stream, const Tensor& ranks, const Tensor& values, const Tensor& logits,
                  const Tensor& targets, const ClassBlock& block, bool accumulate) {
  visit_compute_dtype(logits.dtype, [&]<typename T>(T) {
    with_row_kernel(logits.as<T>(), logits.shape[1], [&](auto threads, auto aligned) {
      launch(stream, {.blocks = logits.shape[0], .threads = threads},
             target_ranks_kernel<threads, aligned, T>, ranks.as<float>(), values.as<float>(),
             RankBlock<T>(logits, targets, block), accumulate);
    });
  });
}

void count_below(Stream& stream, const Tensor& total, const Tensor& values, float limit) {
  launch(stream, {.blocks = 1, .threads = long_row_threads}, count_below_kernel, total.as<double>(),
         values.as<float>(), values.count(), limit);
}

TRIREME_CUDA_PROVIDES(ops, target_logits, target_ranks, count_below);

}  // namespace trireme::ops::cuda
