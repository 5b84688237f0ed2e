// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA kernels: rows read by a warp or a block, one pack per thread at a time. The
// assignment of elements to threads, and so the bits of sums, depend only on the row's length, not
// on its alignment.
#pragma once

#include <concepts>
#include <type_traits>

#include "runtime/ops/common/launch_cuda.h"
#include "runtime/ops/common/pack_cuda.h"

namespace trireme::ops::cuda {

// The pack at `column` of a row of `columns`; elements past its end are zero. `aligned`: all packs
// of the row are whole and aligned.
template <bool aligned, typename T>
__device__ Pack<T, pack_width<T>> row_pack(const T* row, std::int64_t column,
                                           std::int64_t columns) {
  constexpr int width = pack_width<T>;
  if constexpr (aligned) {
    return load_pack<width>(row + column);
  } else {
    Pack<T, width> pack;
#pragma unroll
    for (int j = 0; j < width; ++j)
      pack[j] = column + j < columns ? row[column + j] : T{};
    return pack;
  }
}

template <bool aligned, typename T, int width>
__device__ void store_row_pack(T* row, std::int64_t column, std::int64_t columns,
                               const Pack<T, width>& pack) {
  static_assert(width == pack_width<T>);
  if constexpr (aligned) {
    store_pack(row + column, pack);
  } else {
#pragma unroll
    for (int j = 0; j < width; ++j) {
      if (column + j < columns) row[column + j] = pack[j];
    }
  }
}

// `width` f32 values (gamma, bias, ...) for a pack of another dtype.
template <bool aligned, int width>
__device__ Pack<float, width> row_floats(const float* row, std::int64_t column,
                                         std::int64_t columns) {
  Pack<float, width> values;
  if constexpr (aligned && width >= pack_width<float>) {
#pragma unroll
    for (int j = 0; j < width; j += pack_width<float>) {
      const auto part = load_pack<pack_width<float>>(row + column + j);
#pragma unroll
      for (int i = 0; i < pack_width<float>; ++i)
        values[j + i] = part[i];
    }
  } else {
#pragma unroll
    for (int j = 0; j < width; ++j)
      values[j] = column + j < columns ? row[column + j] : 0.0F;
  }
  return values;
}

// Whether rows of `columns` elements from here on consist of whole, aligned packs of the compute
// dtype `Compute` (f32 operands beside them have several packs each).
template <typename Compute, typename T>
[[nodiscard]] bool rows_align(const T* data, std::int64_t columns) {
  return reinterpret_cast<std::uintptr_t>(data) % pack_bytes == 0 &&
         columns % pack_width<Compute> == 0;
}

// Calls action(std::bool_constant).
template <typename Action>
void with_flag(bool flag, Action&& action) {
  if (flag) {
    action(std::true_type{});
  } else {
    action(std::false_type{});
  }
}

// The packs of all rows of (rows, columns) as one flat range, for element-wise kernels that need
// the column: in 32 bits, because 64-bit divisions cost as much as the memory traffic.
struct RowPacks {
  unsigned rows;
  unsigned per_row;  // packs

  RowPacks(std::int64_t row_count, std::int64_t columns, int width)
      : rows(static_cast<unsigned>(row_count)),
        per_row(static_cast<unsigned>(ceil_div(columns, width))) {
    TRIREME_EXPECTS(row_count * ceil_div(columns, width) < std::int64_t{1} << 31,
                    "a tensor of {} rows of {} elements is larger than one launch covers",
                    row_count, columns);
  }
  [[nodiscard]] std::int64_t count() const { return std::int64_t{rows} * per_row; }

  // Calls f(row, pack of the row) for this thread's share.
  template <typename F>
  __device__ void each(F f) const {
    const unsigned total = rows * per_row;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < total;
         i += gridDim.x * blockDim.x) {
      f(static_cast<std::int64_t>(i / per_row), static_cast<std::int64_t>(i % per_row));
    }
  }
};

}  // namespace trireme::ops::cuda
