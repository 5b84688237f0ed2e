// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/embedding.h"

#include <algorithm>
#include <cstring>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/row_positions.h"

namespace trireme::ops::cpu {
namespace {

template <typename T>
void add_row(float* to, const T* from, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i)
    to[i] += load(from[i]);
}

template <typename T>
void add_position(T* out, const T* token, const T* position, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i)
    store(out[i], load(token[i]) + load(position[i]));
}

}  // namespace

void embedding_forward(Stream& stream, const Tensor& y, const Tensor& tokens,
                       const Tensor& token_table, const Tensor& position_table,
                       const Tensor& document_starts) {
  const std::int64_t rows = tokens.count();
  const RowPositions at({}, tokens.shape[1], tokens.shape[1], document_starts);
  const std::int64_t width = y.shape[2];
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    const T* const positions = position_table.empty() ? nullptr : position_table.as<T>();
    enqueue(stream, [to = y.as<T>(), ids = tokens.as<std::int32_t>(), table = token_table.as<T>(),
                     positions, rows, at, width] {
      for (std::int64_t row = 0; row < rows; ++row) {
        T* const out = to + row * width;
        const T* const token = table + ids[row] * width;
        if (positions == nullptr) {
          std::memcpy(out, token, static_cast<std::size_t>(width) * sizeof(T));
          continue;
        }
        add_position(out, token, positions + at(row) * width, width);
      }
    });
  });
}

// Sequential: each gradient row is a sum in batch order.
void embedding_backward(Stream& stream, const Tensor& d_token_table, const Tensor& d_position_table,
                        const Tensor& dy, const Tensor& tokens, const Tensor& document_starts,
                        const RowRuns& runs) {
  const std::int64_t rows = tokens.count();
  const RowPositions at({}, tokens.shape[1], tokens.shape[1], document_starts, runs);
  const std::int64_t width = dy.shape[2];
  float* const table = d_token_table.empty() ? nullptr : d_token_table.as<float>();
  float* const positions = d_position_table.empty() ? nullptr : d_position_table.as<float>();
  visit_compute_dtype(dy.dtype, [&]<typename T>(T) {
    enqueue(stream, [table, positions, from = dy.as<T>(), ids = tokens.as<std::int32_t>(), rows, at,
                     width] {
      for (std::int64_t row = 0; row < rows; ++row) {
        const T* const gradient = from + row * width;
        if (table != nullptr) add_row(table + ids[row] * width, gradient, width);
        if (positions != nullptr) add_row(positions + at(row) * width, gradient, width);
      }
    });
  });
}

void embedding_partial_forward(Stream& stream, const Tensor& y, const Tensor& tokens,
                               const Tensor& table, std::int64_t first_row) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    enqueue(stream, [to = y.as<T>(), ids = tokens.as<std::int32_t>(), table = table.as<T>(),
                     rows = tokens.count(), width = y.shape[2], own = table.shape[0], first_row] {
      for (std::int64_t row = 0; row < rows; ++row) {
        T* const out = to + row * width;
        const std::int64_t local = ids[row] - first_row;
        if (local < 0 || local >= own) {
          std::fill_n(out, width, T{});
          continue;
        }
        const T* const token = table + local * width;
#pragma omp simd
        for (std::int64_t i = 0; i < width; ++i)
          store(out[i], 0.0F + load(token[i]));  // -0 becomes +0
      }
    });
  });
}

void add_positions(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& position_table,
                   const Tensor& document_starts, const RowRuns& runs, const Tensor& spans) {
  const RowPositions position(spans, y.shape[1], position_table.shape[0], document_starts, runs);
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    enqueue(stream, [to = y.as<T>(), from = x.as<T>(), positions = position_table.as<T>(),
                     rows = y.shape.rows(), position, width = y.shape[2]] {
      for (std::int64_t row = 0; row < rows; ++row) {
        add_position(to + row * width, from + row * width, positions + position(row) * width,
                     width);
      }
    });
  });
}

// In the same order as embedding_backward.
void add_positions_backward(Stream& stream, const Tensor& d_position_table, const Tensor& dy,
                            const RowRuns& runs) {
  const RowPositions at({}, dy.shape[1], dy.shape[1], {}, runs);
  visit_compute_dtype(dy.dtype, [&]<typename T>(T) {
    enqueue(stream, [positions = d_position_table.as<float>(), from = dy.as<T>(),
                     rows = dy.shape.rows(), at, width = dy.shape[2]] {
      for (std::int64_t row = 0; row < rows; ++row)
        add_row(positions + at(row) * width, from + row * width, width);
    });
  });
}

// In the same order as embedding_backward.
void embedding_partial_backward(Stream& stream, const Tensor& d_table, const Tensor& dy,
                                const Tensor& tokens, std::int64_t first_row) {
  visit_compute_dtype(dy.dtype, [&]<typename T>(T) {
    enqueue(stream,
            [table = d_table.as<float>(), from = dy.as<T>(), ids = tokens.as<std::int32_t>(),
             rows = tokens.count(), width = dy.shape[2], own = d_table.shape[0], first_row] {
              for (std::int64_t row = 0; row < rows; ++row) {
                const std::int64_t local = ids[row] - first_row;
                if (local >= 0 && local < own)
                  add_row(table + local * width, from + row * width, width);
              }
            });
  });
}

}  // namespace trireme::ops::cpu
