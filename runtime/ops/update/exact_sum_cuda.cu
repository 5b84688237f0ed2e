// SPDX-License-Identifier: Apache-2.0
// A warp takes a block of terms at a time, 16 per lane, and adds its bins to its own number in
// shared memory; the numbers of warps, then of blocks, are added word by word.
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/common/runs_cuda.h"
#include "runtime/ops/update/exact_sum.h"
#include "runtime/ops/update/exact_sum_math.h"
#include "runtime/ops/update/update_table.h"

namespace trireme::ops::cuda {
namespace {

constexpr int threads = 256;
constexpr int warps = threads / warp_size;
constexpr int terms = static_cast<int>(ExactBins::block) / warp_size;  // of a lane

struct Largest {
  __device__ std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const {
    return std::max(a, b);
  }
};

// Adds the lanes' `x`; all lanes must call, the first one writes.
__device__ void add_block(ExactSum& sum, float (&x)[terms]) {
  const bool writes = threadIdx.x % warp_size == 0;
  std::uint32_t largest = 0;
  int infinities = 0, nans = 0;
#pragma unroll
  for (int i = 0; i < terms; ++i) {
    const std::uint32_t magnitude = magnitude_bits(x[i]);
    const bool finite = magnitude < infinity_bits;
    infinities += magnitude == infinity_bits ? 1 : 0;
    nans += magnitude > infinity_bits ? 1 : 0;
    x[i] = finite ? x[i] : 0.0F;
    largest = std::max(largest, finite ? magnitude : 0U);
  }
  if (__any_sync(whole_warp, infinities + nans) != 0) {
    infinities = warp_reduce(infinities, Sum{});
    nans = warp_reduce(nans, Sum{});
    if (writes) sum.infinities += static_cast<std::uint64_t>(infinities);
    if (writes) sum.nans += static_cast<std::uint64_t>(nans);
  }
  largest = warp_reduce(largest, Largest{});
  if (largest == 0) return;
  double rest[terms];
#pragma unroll
  for (int i = 0; i < terms; ++i)
    rest[i] = static_cast<double>(x[i]) * static_cast<double>(x[i]);
  bool left = true;
  for (int top = ExactBins::top_of(largest); left; top -= 2 * ExactBins::bits) {
    const ExactBins bins(top);
    double first_sum = 0.0, second_sum = 0.0;
    left = false;
#pragma unroll
    for (int i = 0; i < terms; ++i) {
      const ExactBins::Parts parts = bins.split(rest[i]);
      first_sum += parts.coarse;
      second_sum += parts.fine;
      rest[i] = parts.rest;
      left = left || parts.rest != 0.0;
    }
    first_sum = warp_reduce(first_sum, Sum{});
    second_sum = warp_reduce(second_sum, Sum{});
    if (writes) bins.add(sum, first_sum, second_sum);
    left = __any_sync(whole_warp, left ? 1 : 0) != 0;
  }
}

// sums(gridDim, exact_sum_words): the warps' numbers in `parts`, initially zero. A warp's number
// needs no intermediate carry: adds_before_carry blocks of terms exceed any memory.
struct BlockSums {
  ExactSum parts[warps];

  static constexpr int part_words = static_cast<int>(exact_sum_words);
  static_assert(sizeof(ExactSum) == part_words * sizeof(std::uint64_t));

  __device__ void clear() {
    auto* const words = reinterpret_cast<std::uint64_t*>(parts);
    for (int i = static_cast<int>(threadIdx.x); i < warps * part_words; i += threads)
      words[i] = 0;
    __syncthreads();
  }
  // The squares of elements [begin, end), `apart` in x; the warp's blocks of terms are `stride`
  // apart.
  __device__ void add(const float* x, std::int64_t begin, std::int64_t end, std::int64_t stride,
                      std::int64_t apart = 1) {
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    ExactSum& own = parts[threadIdx.x / warp_size];
    for (std::int64_t first = begin; first < end; first += stride) {
      float values[terms];
#pragma unroll
      for (int i = 0; i < terms; ++i) {
        const std::int64_t at = first + i * warp_size + lane;
        values[i] = at < end ? x[at * apart] : 0.0F;
      }
      add_block(own, values);
    }
  }
  __device__ void store(std::uint64_t* sum) {
    __syncthreads();
    if (threadIdx.x == 0) {
      const auto* const words = reinterpret_cast<const std::uint64_t*>(parts);
      for (int i = 0; i < warps; ++i)
        parts[i].carry();
      for (int i = 1; i < warps; ++i)
        parts[0] += words + i * part_words;
      parts[0].carry();
      parts[0].store(sum);
    }
    __syncthreads();
  }
};

__device__ std::int64_t own_terms() {
  return static_cast<std::int64_t>(threadIdx.x / warp_size) * ExactBins::block;
}

__global__ void block_sums_kernel(std::uint64_t* sums, const float* x, std::int64_t count) {
  __shared__ BlockSums block;
  block.clear();
  const std::int64_t all = warps * ExactBins::block;
  block.add(x, blockIdx.x * all + own_terms(), count, gridDim.x * all);
  block.store(sums + blockIdx.x * exact_sum_words);
}

// sums(parts of the table, exact_sum_words)
__global__ void part_sums_kernel(std::uint64_t* sums, const SquaresEntry* entries, int runs,
                                 std::int64_t parts) {
  __shared__ BlockSums block;
  for (std::int64_t part = blockIdx.x; part < parts; part += gridDim.x) {
    block.clear();
    const SquaresEntry entry = entries[last_from(entries, runs, &SquaresEntry::part, part)];
    const std::int64_t first = (part - entry.part) * SquaresTable::exact_part_elements;
    const std::int64_t end = std::min(first + SquaresTable::exact_part_elements, entry.count);
    block.add(entry.values, first + own_terms(), end, warps * ExactBins::block, entry.stride);
    block.store(sums + part * exact_sum_words);
  }
}

// state += sums(blocks, exact_sum_words)
__global__ void join_sums_kernel(std::uint64_t* state, const std::uint64_t* sums,
                                 std::int64_t blocks) {
  __shared__ std::uint64_t words[exact_sum_words];
  __shared__ ExactSum total;
  if (threadIdx.x < exact_sum_words) {
    std::uint64_t sum = 0;
    for (std::int64_t i = 0; i < blocks; ++i)
      sum += sums[i * exact_sum_words + threadIdx.x];
    words[threadIdx.x] = sum;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  total.load(state);
  total += words;
  total.carry();
  total.store(state);
}

// states(totals, exact_sum_words) from the sums of the parts; one block per total, whose threads
// each take a word of every `groups`-th part.
__global__ void join_parts_kernel(std::uint64_t* states, const std::uint64_t* sums,
                                  const SquaresEntry* entries, const std::int64_t* first_run,
                                  int runs, std::int64_t parts) {
  constexpr int part_words = BlockSums::part_words, groups = threads / part_words;
  __shared__ std::uint64_t words[groups][part_words];
  const auto begin_of = [&](std::int64_t run) { return run < runs ? entries[run].part : parts; };
  const std::int64_t end = begin_of(first_run[blockIdx.x + 1]);
  const int word = static_cast<int>(threadIdx.x) % part_words;
  const int group = static_cast<int>(threadIdx.x) / part_words;
  if (group < groups) {
    std::uint64_t sum = 0;
    for (std::int64_t i = begin_of(first_run[blockIdx.x]) + group; i < end; i += groups)
      sum += sums[i * part_words + word];
    words[group][word] = sum;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  ExactSum total{};
  for (int i = 0; i < groups; ++i)
    total += words[i];
  total.carry();
  total.store(states + blockIdx.x * exact_sum_words);
}

__global__ void values_kernel(double* totals, const std::uint64_t* states) {
  __shared__ ExactSum sum;
  sum.load(states + blockIdx.x * exact_sum_words);
  totals[blockIdx.x] = sum.value();
}

}  // namespace

void accumulate_squares_exact(Stream& stream, const Tensor& state, const Tensor& x) {
  const std::int64_t count = x.count();
  const Grid grid = grid_for(stream, count, warps * ExactBins::block, threads);
  auto* const sums = reinterpret_cast<std::uint64_t*>(CudaStream::of(stream).scratch(
      static_cast<std::size_t>(grid.blocks * exact_sum_words) * sizeof(std::uint64_t)));
  launch(stream, grid, block_sums_kernel, sums, x.as<float>(), count);
  launch(stream, {.blocks = 1, .threads = warp_size}, join_sums_kernel, state.as<std::uint64_t>(),
         sums, grid.blocks);
}

void sum_squares_exact(Stream& stream, const Tensor& states, const SquaresTable& table) {
  auto* const sums = reinterpret_cast<std::uint64_t*>(table.sums());
  const auto runs = static_cast<int>(table.entries().size());
  launch(stream, grid_for(stream, table.parts(), 1, threads), part_sums_kernel, sums,
         table.entries_on_device(), runs, table.parts());
  launch(stream, {.blocks = table.totals(), .threads = threads}, join_parts_kernel,
         states.as<std::uint64_t>(), sums, table.entries_on_device(), table.first_run_on_device(),
         runs, table.parts());
}

void exact_sum_values(Stream& stream, const Tensor& totals, const Tensor& states) {
  launch(stream, {.blocks = totals.count(), .threads = 1}, values_kernel, totals.as<double>(),
         states.as<std::uint64_t>());
}

TRIREME_CUDA_PROVIDES(ops, accumulate_squares_exact, sum_squares_exact, exact_sum_values);

}  // namespace trireme::ops::cuda
