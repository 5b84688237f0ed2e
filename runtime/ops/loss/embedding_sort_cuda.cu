// SPDX-License-Identifier: Apache-2.0
// A least-significant-digit radix sort (8 bits a pass). Ranks come from warp ballots and counts in
// shared memory, never from atomics, so equal keys keep their order.
#include <bit>

#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/loss/embedding_sort_cuda.h"

namespace trireme::ops::cuda {
namespace {

inline constexpr int digit_bits = 8;
inline constexpr int digits = 1 << digit_bits;
inline constexpr int sort_threads = 256;
inline constexpr int warps = sort_threads / warp_size;
inline constexpr int rounds = 8;  // keys a thread
inline constexpr int warp_keys = warp_size * rounds;
inline constexpr int tile_keys = warps * warp_keys;

struct Keys {
  const std::uint32_t* rows;
  const std::uint32_t* positions;
};

__global__ void make_keys_kernel(std::uint32_t* rows, std::uint32_t* positions,
                                 const std::int32_t* tokens, std::uint32_t count,
                                 std::int64_t first_row, std::int64_t table_rows) {
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += gridDim.x * blockDim.x) {
    const std::int64_t row = tokens[i] - first_row;
    rows[i] = static_cast<std::uint32_t>(row >= 0 && row < table_rows ? row : table_rows);
    positions[i] = i;
  }
}

// The lanes of this warp whose key has the same digit as this lane's; only lanes with a key count.
__device__ unsigned lanes_of_digit(unsigned digit, bool present) {
  unsigned same = __ballot_sync(whole_warp, present);
#pragma unroll
  for (int bit = 0; bit < digit_bits; ++bit) {
    const bool set = (digit >> bit & 1U) != 0;
    const unsigned with = __ballot_sync(whole_warp, set);
    same &= set ? with : ~with;
  }
  return same;
}

// Walks this warp's keys of the tile in order. For each: f(key index, digit, how many keys of the
// digit came before it in this warp). counts: this warp's, zero at first, its totals at the end.
template <typename F>
__device__ void rank_keys(const std::uint32_t* rows, std::uint32_t count, int shift,
                          std::uint32_t* counts, F f) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const unsigned below = (1U << lane) - 1U;
  const std::uint32_t first =
      blockIdx.x * tile_keys + threadIdx.x / warp_size * static_cast<unsigned>(warp_keys);
  for (int round = 0; round < rounds; ++round) {
    const std::uint32_t i = first + round * warp_size + lane;
    const bool present = i < count;
    const unsigned digit = present ? rows[i] >> shift & (digits - 1) : 0;
    const unsigned same = lanes_of_digit(digit, present);
    if (present) f(i, digit, counts[digit] + __popc(same & below));
    __syncwarp();
    if (present && (same & below) == 0) counts[digit] += __popc(same);
    __syncwarp();
  }
}

__device__ void clear_counts(std::uint32_t (&counts)[warps][digits]) {
  for (int i = threadIdx.x; i < warps * digits; i += sort_threads)
    counts[i / digits][i % digits] = 0;
  __syncthreads();
}

// histogram(tiles, digits)
__global__ void __launch_bounds__(sort_threads)
    count_digits_kernel(std::uint32_t* histogram, const std::uint32_t* rows, std::uint32_t count,
                        int shift) {
  __shared__ std::uint32_t counts[warps][digits];
  clear_counts(counts);
  rank_keys(rows, count, shift, counts[threadIdx.x / warp_size],
            [](std::uint32_t, unsigned, std::uint32_t) {});
  __syncthreads();
  std::uint32_t sum = 0;
  for (int w = 0; w < warps; ++w)
    sum += counts[w][threadIdx.x];
  histogram[blockIdx.x * digits + threadIdx.x] = sum;
}

// Turns histogram(tiles, digits) into where each tile's keys of a digit begin: a thread a digit.
__global__ void __launch_bounds__(digits)
    scan_digits_kernel(std::uint32_t* histogram, std::uint32_t tiles) {
  __shared__ std::uint32_t totals[digits];
  const int digit = static_cast<int>(threadIdx.x);
  std::uint32_t total = 0;
#pragma unroll 8
  for (std::uint32_t tile = 0; tile < tiles; ++tile)
    total += histogram[tile * digits + digit];
  totals[digit] = total;
  __syncthreads();
  for (int step = 1; step < digits; step *= 2) {
    const std::uint32_t before = digit >= step ? totals[digit - step] : 0;
    __syncthreads();
    totals[digit] += before;
    __syncthreads();
  }
  std::uint32_t begin = totals[digit] - total;
#pragma unroll 8
  for (std::uint32_t tile = 0; tile < tiles; ++tile) {
    const std::uint32_t here = histogram[tile * digits + digit];
    histogram[tile * digits + digit] = begin;
    begin += here;
  }
}

__global__ void __launch_bounds__(sort_threads)
    scatter_kernel(std::uint32_t* rows, std::uint32_t* positions, Keys from,
                   const std::uint32_t* begins, std::uint32_t count, int shift) {
  __shared__ std::uint32_t counts[warps][digits];
  clear_counts(counts);
  rank_keys(from.rows, count, shift, counts[threadIdx.x / warp_size],
            [](std::uint32_t, unsigned, std::uint32_t) {});
  __syncthreads();
  // Each warp's keys of a digit follow those of the warps before it.
  std::uint32_t next = begins[blockIdx.x * digits + threadIdx.x];
  for (int w = 0; w < warps; ++w) {
    const std::uint32_t here = counts[w][threadIdx.x];
    counts[w][threadIdx.x] = next;
    next += here;
  }
  __syncthreads();
  rank_keys(from.rows, count, shift, counts[threadIdx.x / warp_size],
            [&](std::uint32_t i, unsigned, std::uint32_t to) {
              rows[to] = from.rows[i];
              positions[to] = from.positions[i];
            });
}

}  // namespace

SortedTokens sort_tokens(Stream& stream, const std::int32_t* tokens, std::int64_t count,
                         std::int64_t first_row, std::int64_t table_rows) {
  constexpr std::int64_t limit = std::int64_t{1} << 31;
  TRIREME_EXPECTS(count < limit && table_rows < limit,
                  "embedding: {} tokens and {} table rows, expected fewer than 2^31", count,
                  table_rows);
  const std::int64_t tiles = trireme::cuda::ceil_div(count, tile_keys);
  auto* const scratch = reinterpret_cast<std::uint32_t*>(CudaStream::of(stream).scratch(
      static_cast<std::size_t>(4 * count + tiles * digits) * sizeof(std::uint32_t)));
  // Two buffers of (rows, positions), which the passes read and write in turn.
  std::uint32_t* from = scratch;
  std::uint32_t* to = scratch + 2 * count;
  std::uint32_t* const histogram = scratch + 4 * count;
  const auto n = static_cast<std::uint32_t>(count);
  trireme::cuda::launch(stream, trireme::cuda::grid_for(stream, count, sort_threads, sort_threads),
                        make_keys_kernel, from, from + count, tokens, n, first_row, table_rows);
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(table_rows)));
  for (int shift = 0; shift < bits; shift += digit_bits) {
    const trireme::cuda::Grid grid{.blocks = tiles, .threads = sort_threads};
    trireme::cuda::launch(stream, grid, count_digits_kernel, histogram, from, n, shift);
    trireme::cuda::launch(stream, {.blocks = 1, .threads = digits}, scan_digits_kernel, histogram,
                          static_cast<std::uint32_t>(tiles));
    trireme::cuda::launch(stream, grid, scatter_kernel, to, to + count, Keys{from, from + count},
                          histogram, n, shift);
    std::swap(from, to);
  }
  return {from, from + count};
}

}  // namespace trireme::ops::cuda
