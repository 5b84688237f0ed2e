// SPDX-License-Identifier: Apache-2.0
// Stable, and so deterministic: CUB's radix sort (cub::DeviceRadixSort; Adinets and Merrill,
// "Onesweep", 2022) over as many bits as the table's rows have.
#include <cub/device/device_radix_sort.cuh>

#include <bit>

#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/loss/embedding_sort_cuda.h"

namespace trireme::ops::cuda {
namespace {

using Keys = cub::DoubleBuffer<std::uint32_t>;

constexpr int key_threads = 256;
constexpr std::size_t alignment = 256;

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

// Sorts on `stream` with `bytes` of `temporary` memory; if that is null, only sets `bytes` to the
// required size.
void sort_pairs(Stream& stream, std::byte* temporary, std::size_t& bytes, Keys& rows,
                Keys& positions, std::int64_t count, int bits) {
  // A histogram, its sums and a pass for each digit of 8 bits.
  const int kernels = 2 + (bits + 7) / 8;
  const bool runs = temporary == nullptr ? CudaStream::of(stream).runs()
                                         : trireme::cuda::asked_to_call(
                                               stream, "cub::DeviceRadixSort::SortPairs", kernels);
  if (!runs) return;
  TRIREME_CUDA(cub::DeviceRadixSort::SortPairs(temporary, bytes, rows, positions, count, 0, bits,
                                               CudaStream::of(stream).handle()));
}

}  // namespace

SortedTokens sort_tokens(Stream& stream, const std::int32_t* tokens, std::int64_t count,
                         std::int64_t first_row, std::int64_t table_rows) {
  constexpr std::int64_t limit = std::int64_t{1} << 31;
  TRIREME_EXPECTS(count < limit && table_rows < limit,
                  "embedding: {} tokens and {} table rows, expected fewer than 2^31", count,
                  table_rows);
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(table_rows)));
  Keys rows(nullptr, nullptr);
  Keys positions(nullptr, nullptr);
  std::size_t temporary = 0;
  sort_pairs(stream, nullptr, temporary, rows, positions, count, bits);
  const std::size_t keys = static_cast<std::size_t>(4 * count) * sizeof(std::uint32_t);
  const std::size_t begin = (keys + alignment - 1) / alignment * alignment;
  std::byte* const scratch = CudaStream::of(stream).scratch(begin + temporary);
  auto* const memory = reinterpret_cast<std::uint32_t*>(scratch);
  rows = Keys(memory, memory + count);
  positions = Keys(memory + 2 * count, memory + 3 * count);
  launch(stream, grid_for(stream, count, key_threads, key_threads), make_keys_kernel,
         rows.Current(), positions.Current(), tokens, static_cast<std::uint32_t>(count), first_row,
         table_rows);
  sort_pairs(stream, scratch + begin, temporary, rows, positions, count, bits);
  return {rows.Current(), positions.Current()};
}

}  // namespace trireme::ops::cuda
