// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/update/block_sum.h"

#include "runtime/ops/common/rows_cuda.h"

namespace trireme::ops::cuda {
namespace {

__device__ double load(double value) {
  return value;
}
__device__ void store(double& to, double value) {
  to = value;
}
using ops::load;
using ops::store;

// Tree levels of the kernel for few blocks, and of the one for any number.
inline constexpr int few_levels = 5;
inline constexpr int all_levels = 32;

// Adds a sum of 2^first leaves after `leaves` others, like a binary counter's carry. Indices are
// compile-time constants, so the levels are registers.
template <int first, int levels, int width, typename Accumulator>
__device__ void count_in(Accumulator (&level)[levels][width], Accumulator (&value)[width],
                         unsigned leaves) {
  bool carried = true;
#pragma unroll
  for (int l = first; l < levels; ++l) {
    const bool taken = (leaves >> l & 1U) != 0;
#pragma unroll
    for (int j = 0; j < width; ++j) {
      if (carried && taken) value[j] = level[l][j] + value[j];
      if (carried && !taken) level[l][j] = value[j];
    }
    carried = carried && taken;
  }
}

// The tree, block after block like a binary counter: level l holds the sum of the last complete 2^l
// leaves, and the remaining levels are joined from the right. The first `doubled` blocks are two
// leaves each.
template <int levels, int width, typename To, typename From, typename Accumulator>
__global__ void sum_blocks_kernel(To* y, const From* x, unsigned blocks, unsigned doubled,
                                  std::int64_t size) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x * width;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * width; i < size;
       i += stride) {
    Accumulator level[levels][width], value[width];
    const auto load_block = [&](unsigned block) {
      const auto in = load_pack<width>(x + block * size + i);
#pragma unroll
      for (int j = 0; j < width; ++j)
        value[j] = load(in[j]);
    };
    for (unsigned block = 0; block < doubled; ++block) {
      load_block(block);
      count_in<1>(level, value, 2 * block);
    }
    for (unsigned block = doubled; block < blocks; ++block) {
      load_block(block);
      count_in<0>(level, value, doubled + block);
    }
    Accumulator sum[width];
    bool begun = false;
#pragma unroll
    for (int l = 0; l < levels; ++l) {
      const bool held = ((blocks + doubled) >> l & 1U) != 0;
#pragma unroll
      for (int j = 0; j < width; ++j) {
        if (held) sum[j] = begun ? level[l][j] + sum[j] : level[l][j];
      }
      begun = begun || held;
    }
    Pack<To, width> out;
#pragma unroll
    for (int j = 0; j < width; ++j)
      store(out[j], sum[j]);
    store_pack(y + i, out);
  }
}

template <typename To, typename From, typename Accumulator>
void sum(Stream& stream, const Tensor& y, const Tensor& x, std::int64_t doubled) {
  const std::int64_t size = y.count();
  const std::int64_t blocks = x.shape[0], leaves = blocks + doubled;
  TRIREME_EXPECTS(leaves < std::int64_t{1} << all_levels, "sum_blocks: {} blocks are too many",
                  leaves);
  const auto run = [&](auto levels, auto width) {
    constexpr int threads = 256;
    launch(stream, grid_for(stream, size, std::int64_t{threads} * width, threads),
           sum_blocks_kernel<levels, width, To, From, Accumulator>, y.as<To>(), x.as<From>(),
           static_cast<unsigned>(blocks), static_cast<unsigned>(doubled), size);
  };
  constexpr int widest = std::min(pack_width<To>, pack_width<From>);
  const bool packs = packs_fit(y.as<To>(), size, widest) && packs_fit(x.as<From>(), size, widest);
  if (leaves >= 1 << few_levels) {
    run(std::integral_constant<int, all_levels>{}, std::integral_constant<int, 1>{});
  } else if (packs) {
    run(std::integral_constant<int, few_levels>{}, std::integral_constant<int, widest>{});
  } else {
    run(std::integral_constant<int, few_levels>{}, std::integral_constant<int, 1>{});
  }
}

}  // namespace

void sum_blocks(Stream& stream, const Tensor& y, const Tensor& x, std::int64_t doubled) {
  if (y.dtype == DType::f64) {
    sum<double, double, double>(stream, y, x, doubled);
    return;
  }
  visit_compute_dtype(y.dtype, [&](auto to) {
    visit_compute_dtype(x.dtype, [&](auto from) {
      sum<decltype(to), decltype(from), float>(stream, y, x, doubled);
    });
  });
}

TRIREME_CUDA_PROVIDES(ops, sum_blocks);

}  // namespace trireme::ops::cuda
