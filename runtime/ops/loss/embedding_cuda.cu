// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/loss/embedding.h"

#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/common/row_positions.h"
#include "runtime/ops/common/rows_cuda.h"
#include "runtime/ops/loss/embedding_sort_cuda.h"

namespace trireme::ops::cuda {
namespace {

// Source of a row's pack: a whole table, a block of one, or a tensor.
template <typename T>
struct TokenRows {
  const T* table;
  const std::int32_t* tokens;

  template <bool aligned>
  __device__ Pack<T, pack_width<T>> pack(std::int64_t row, std::int64_t column,
                                         std::int64_t columns) const {
    return row_pack<aligned>(table + tokens[row] * columns, column, columns);
  }
};

template <typename T>
struct PartialRows {
  const T* table;
  const std::int32_t* tokens;
  std::int64_t first_row;
  std::int64_t own;

  template <bool aligned>
  __device__ Pack<T, pack_width<T>> pack(std::int64_t row, std::int64_t column,
                                         std::int64_t columns) const {
    const std::int64_t local = tokens[row] - first_row;
    if (local < 0 || local >= own) return {};
    auto pack = row_pack<aligned>(table + local * columns, column, columns);
#pragma unroll
    for (int j = 0; j < pack_width<T>; ++j)
      store(pack[j], 0.0F + load(pack[j]));  // -0 becomes +0
    return pack;
  }
};

template <typename T>
struct GivenRows {
  const T* x;

  template <bool aligned>
  __device__ Pack<T, pack_width<T>> pack(std::int64_t row, std::int64_t column,
                                         std::int64_t columns) const {
    return row_pack<aligned>(x + row * columns, column, columns);
  }
};

// y(B, T, C) = source row + the row of its position in positions(P, C), which may be null.
template <bool aligned, typename T, typename Source>
__global__ void embed_kernel(T* y, Source source, const T* positions, RowPacks packs,
                             RowPositions position, std::int64_t columns) {
  constexpr int width = pack_width<T>;
  packs.each([&](std::int64_t row, std::int64_t index) {
    const std::int64_t column = index * width;
    auto pack = source.template pack<aligned>(row, column, columns);
    if (positions != nullptr) {
      const auto add = row_pack<aligned>(positions + position(row) * columns, column, columns);
#pragma unroll
      for (int j = 0; j < width; ++j)
        store(pack[j], load(pack[j]) + load(add[j]));
    }
    store_row_pack<aligned>(y + row * columns, column, columns, pack);
  });
}

// `rows`: start of the source's rows.
template <typename T, typename Source>
void embed(Stream& stream, const Tensor& y, const Source& source, const T* rows,
           const Tensor& position_table, const RowPositions& position) {
  if (y.count() == 0) return;
  const std::int64_t columns = y.shape[2];
  const T* const positions = position_table.empty() ? nullptr : position_table.as<T>();
  const RowPacks packs(y.shape[0] * y.shape[1], columns, pack_width<T>);
  with_flag(rows_align<T>(y.as<T>(), columns) && rows_align<T>(rows, columns) &&
                rows_align<T>(positions, columns),
            [&](auto aligned) {
              launch(stream, grid_for(stream, packs.count(), 256), embed_kernel<aligned, T, Source>,
                     y.as<T>(), source, positions, packs, position, columns);
            });
}

// Columns per lane in the gradient of a table row: few, because a frequent token's rows are read
// sequentially, and more warps then share that work.
inline constexpr int gradient_width = 4;
inline constexpr int gradient_columns = warp_size * gradient_width;  // per warp

// table(rows, C) += for each row the dy rows of its tokens, in order. A warp per place in the
// sorted tokens and `gradient_columns` columns; a row's first place adds all.
template <bool packed, typename T>
__global__ void __launch_bounds__(256)
    table_gradient_kernel(float* table, const T* dy, SortedTokens sorted, std::int64_t count,
                          std::int64_t table_rows, std::int64_t columns) {
  constexpr int width = gradient_width;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const std::int64_t slices = (columns + gradient_columns - 1) / gradient_columns;
  const std::int64_t item = std::int64_t{blockIdx.x} * (256 / warp_size) + threadIdx.x / warp_size;
  const std::int64_t place = item / slices;
  if (place >= count) return;
  const std::uint32_t row = sorted.rows[place];
  if (row == table_rows || (place > 0 && sorted.rows[place - 1] == row)) return;
  const std::int64_t column = item % slices * gradient_columns + lane * width;
  const auto inside = [&](int j) { return packed ? column < columns : column + j < columns; };

  float* const to = table + row * columns + column;
  float sum[width];
#pragma unroll
  for (int j = 0; j < width; ++j)
    sum[j] = inside(j) ? to[j] : 0.0F;
  for (std::int64_t next = place;; next += warp_size) {
    const std::int64_t own = next + lane;
    const bool ours = own < count && sorted.rows[own] == row;
    const int here = __popc(__ballot_sync(whole_warp, ours));
    const int position = ours ? static_cast<int>(sorted.positions[own]) : 0;
#pragma unroll 16
    for (int k = 0; k < here; ++k) {
      const T* const from =
          dy + static_cast<std::int64_t>(__shfl_sync(whole_warp, position, k)) * columns + column;
      Pack<T, width> pack{};
      if constexpr (packed) {
        if (inside(0)) pack = load_pack<width>(from);
      } else {
#pragma unroll
        for (int j = 0; j < width; ++j) {
          if (inside(j)) pack[j] = from[j];
        }
      }
#pragma unroll
      for (int j = 0; j < width; ++j)
        sum[j] += load(pack[j]);
    }
    if (here < warp_size) break;
  }
#pragma unroll
  for (int j = 0; j < width; ++j) {
    if (inside(j)) to[j] = sum[j];
  }
}

template <typename T>
void add_table_gradient(Stream& stream, const Tensor& d_table, const Tensor& dy,
                        const Tensor& tokens, std::int64_t first_row) {
  const std::int64_t count = tokens.count();
  const std::int64_t columns = dy.shape[2];
  const std::int64_t rows = d_table.shape[0];
  const SortedTokens sorted =
      sort_tokens(stream, tokens.as<std::int32_t>(), count, first_row, rows);
  const bool packed = packs_fit(dy.as<T>(), columns, gradient_width);
  const std::int64_t warps = count * ceil_div(columns, gradient_columns);
  launch(stream, {.blocks = ceil_div(warps, 256 / warp_size), .threads = 256},
         packed ? table_gradient_kernel<true, T> : table_gradient_kernel<false, T>,
         d_table.as<float>(), dy.as<T>(), sorted, count, rows, columns);
}

// Calls visit(row) for each of [row, end) that is at `position` in its document, in order. Row r is
// at first + r in its sequence; starts(T).
template <typename Visit>
__device__ void each_at(const std::int32_t* starts, std::int64_t position, std::int64_t row,
                        std::int64_t end, std::int64_t first, Visit visit) {
  while (row < end) {
    const std::int64_t begin = starts[row], t = begin + position - first;
    if (t >= row && t < end && starts[t] == begin) visit(t);
    std::int64_t low = row + 1, high = end;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (starts[middle] > begin) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    row = high;
  }
}

// positions(P, C) += dy(B, T, C) over B in order. A row of the packs is a position in documents if
// there are starts(B, T), else a row of the samples. `runs` has rows.
template <bool aligned, typename T>
__global__ void position_gradient_kernel(float* positions, const T* dy, const std::int32_t* starts,
                                         RowPacks packs, RowRuns runs, std::int64_t batch,
                                         std::int64_t length, std::int64_t columns) {
  constexpr int width = pack_width<T>;
  packs.each([&](std::int64_t item, std::int64_t index) {
    const std::int64_t column = index * width;
    float* const to = positions + (starts == nullptr ? runs.position(item) : item) * columns;
    auto sum = row_floats<aligned, width>(to, column, columns);
#pragma unroll 4
    for (std::int64_t b = 0; b < batch; ++b) {
      const T* const sample = dy + b * length * columns;
      const auto add = [&](std::int64_t row) {
        const auto pack = row_pack<aligned>(sample + row * columns, column, columns);
#pragma unroll
        for (int j = 0; j < width; ++j)
          sum[j] += load(pack[j]);
      };
      if (starts == nullptr) {
        add(item);
        continue;
      }
      const std::int32_t* const own = starts + b * length;
      each_at(own, item, 0, runs.rows, runs.first, add);
      each_at(own, item, runs.rows, length, runs.second - runs.rows, add);
    }
#pragma unroll
    for (int j = 0; j < width; ++j) {
      if (aligned || column + j < columns) to[column + j] = sum[j];
    }
  });
}

template <typename T>
void add_position_gradient(Stream& stream, const Tensor& d_positions, const Tensor& dy,
                           const Tensor& document_starts, const RowRuns& given) {
  const std::int64_t length = dy.shape[1], columns = dy.shape[2];
  const RowRuns runs = given.empty() ? RowRuns{.rows = length} : given;
  const std::int32_t* const starts =
      document_starts.empty() ? nullptr : document_starts.as<std::int32_t>();
  const RowPacks packs(starts == nullptr ? length : runs.end(length), columns, pack_width<T>);
  with_flag(rows_align<T>(dy.as<T>(), columns) && rows_align<T>(d_positions.as<float>(), columns),
            [&](auto aligned) {
              constexpr int threads = 128;
              launch(stream, grid_for(stream, packs.count(), threads, threads),
                     position_gradient_kernel<aligned, T>, d_positions.as<float>(), dy.as<T>(),
                     starts, packs, runs, dy.shape[0], length, columns);
            });
}

}  // namespace

void embedding_forward(Stream& stream, const Tensor& y, const Tensor& tokens,
                       const Tensor& token_table, const Tensor& position_table,
                       const Tensor& document_starts) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    const T* const table = token_table.as<T>();
    embed(stream, y, TokenRows<T>{table, tokens.as<std::int32_t>()}, table, position_table,
          RowPositions({}, y.shape[1], y.shape[1], document_starts));
  });
}

void embedding_backward(Stream& stream, const Tensor& d_token_table, const Tensor& d_position_table,
                        const Tensor& dy, const Tensor& tokens, const Tensor& document_starts,
                        const RowRuns& runs) {
  if (dy.count() == 0) return;
  visit_compute_dtype(dy.dtype, [&]<typename T>(T) {
    if (!d_token_table.empty()) add_table_gradient<T>(stream, d_token_table, dy, tokens, 0);
    if (!d_position_table.empty())
      add_position_gradient<T>(stream, d_position_table, dy, document_starts, runs);
  });
}

void embedding_partial_forward(Stream& stream, const Tensor& y, const Tensor& tokens,
                               const Tensor& table, std::int64_t first_row) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    const PartialRows<T> rows{table.as<T>(), tokens.as<std::int32_t>(), first_row, table.shape[0]};
    embed(stream, y, rows, rows.table, {}, RowPositions({}, y.shape[1], y.shape[1]));
  });
}

void add_positions(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& position_table,
                   const Tensor& document_starts, const RowRuns& runs, const Tensor& spans) {
  const RowPositions position(spans, y.shape[1], position_table.shape[0], document_starts, runs);
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    embed(stream, y, GivenRows<T>{x.as<T>()}, static_cast<const T*>(x.as<T>()), position_table,
          position);
  });
}

void add_positions_backward(Stream& stream, const Tensor& d_position_table, const Tensor& dy,
                            const RowRuns& runs) {
  if (dy.count() == 0) return;
  visit_compute_dtype(dy.dtype, [&](auto type) {
    add_position_gradient<decltype(type)>(stream, d_position_table, dy, {}, runs);
  });
}

void embedding_partial_backward(Stream& stream, const Tensor& d_table, const Tensor& dy,
                                const Tensor& tokens, std::int64_t first_row) {
  if (dy.count() == 0) return;
  visit_compute_dtype(dy.dtype, [&](auto type) {
    add_table_gradient<decltype(type)>(stream, d_table, dy, tokens, first_row);
  });
}

TRIREME_CUDA_PROVIDES(ops, embedding_forward, embedding_backward, embedding_partial_forward,
                      add_positions, add_positions_backward, embedding_partial_backward);

}  // namespace trireme::ops::cuda
