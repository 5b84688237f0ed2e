// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/common/maps_cuda.h"
#include "runtime/ops/loss/cross_entropy_row_cuda.h"
#include "runtime/ops/loss/target_rank_maps.h"

namespace trireme::ops::cuda {
namespace {

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

TRIREME_CUDA_PROVIDES(ops, target_ranks, count_below);

}  // namespace trireme::ops::cuda
