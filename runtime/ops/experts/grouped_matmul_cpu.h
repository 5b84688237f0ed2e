// SPDX-License-Identifier: Apache-2.0
// Private: products of few rows with a matrix, in blocks of tiles (gemm/matmul_tile_cpu.h). Every
// result is one chain of multiply-adds along the common axis: a tile continues from the sums of the
// block before. Operands of other dtypes are widened when they are packed.
//
// The weights are the larger operand for few rows, so they are never transposed: forward computes
// y^T. Prefetching them in an input gradient was slower than what the processor does by itself.
// Rows of weights and gradients are often a power of two apart, where a tile's rows share few sets
// of the first-level cache: what is read several times is copied first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "runtime/ops/attention/attention_pack_cpu.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/gemm/linear_rows_cpu.h"
#include "runtime/ops/gemm/matmul_cpu.h"

namespace trireme::ops::cpu {

// A packed block fits the second-level cache, one of its panels the first-level one.
inline constexpr std::int64_t block_rows = 20 * tile_rows;
inline constexpr std::int64_t block_columns = 16 * lanes;
inline constexpr std::int64_t input_rows = 32 * tile_rows;  // of a block of an input gradient
inline constexpr std::int64_t block_depth = 256;
inline constexpr std::int64_t cached_floats = std::int64_t{1} << 17;
// Below these, packing blocks of weights takes longer than it saves; panels, below very_few_rows.
inline constexpr std::int64_t few_rows = 10 * tile_rows, few_depth = 32;
inline constexpr std::int64_t very_few_rows = 2 * tile_rows;

struct LinearSizes {
  std::int64_t rows, outputs, inputs;
};

// Of one product: right and left operands, packed, and sums.
struct ProductScratch {
  float *panels, *left, *sums;

  static ProductScratch of(std::int64_t panels, std::int64_t left, std::int64_t sums) {
    static thread_local ScratchBlock block;
    float* const memory = block.floats(static_cast<std::size_t>(panels + left + sums));
    return {memory, memory + panels, memory + panels + left};
  }
};

// Strip `first` of a left operand's `rows` rows, elements [k, k + depth): packed, with zeros beyond
// the last row.
template <typename T>
LeftOperand packed_strip(float* to, const HeadRows<const T>& left, std::int64_t first,
                         std::int64_t rows, std::int64_t k, std::int64_t depth) {
  const HeadRows<const T> from{left.row(first) + k, left.stride};
  pack_left(to, from, 0, std::min<std::int64_t>(tile_rows, rows - first), tile_rows, depth);
  return {to, depth, 1};
}

// The same where it lies, if that is possible.
template <typename T>
LeftOperand left_strip(float* to, const HeadRows<const T>& left, std::int64_t first,
                       std::int64_t rows, std::int64_t k, std::int64_t depth) {
  if constexpr (std::is_same_v<T, float>) {
    if (first + tile_rows <= rows) return {left.row(first) + k, left.stride, 1};
  }
  return packed_strip(to, left, first, rows, k, depth);
}

// sums(rows, panels.columns) = left * panels, strip after strip.
template <typename T>
void multiply_strips(const ProductScratch& scratch, const HeadRows<const T>& left,
                     std::int64_t rows, const Panels& panels) {
  for (std::int64_t s = 0; s < rows; s += tile_rows) {
    float* const sums = scratch.sums + s * panels.columns;
    for (std::int64_t k = 0; k < panels.rows; k += block_depth) {
      const std::int64_t depth = std::min(block_depth, panels.rows - k);
      const LeftOperand strip = left_strip(scratch.left, left, s, rows, k, depth);
      for (std::int64_t p = 0; p < panels.columns; p += tile_columns)
        panel_tile<true>(panels.width(p), k > 0, depth, strip, panels.at(k, p), sums + p,
                         panels.columns);
    }
  }
}

// sums(rows, panels.columns), block_columns apart, (+)= left * panels.
template <typename T>
void multiply_block(const ProductScratch& scratch, const HeadRows<const T>& left, std::int64_t rows,
                    const Panels& panels, bool accumulate) {
  const std::int64_t strips = round_up(rows, tile_rows) / tile_rows;
  LeftOperand strip[input_rows / tile_rows];
  for (std::int64_t s = 0; s < strips; ++s)
    strip[s] = packed_strip(scratch.left + s * tile_rows * panels.rows, left, s * tile_rows, rows,
                            0, panels.rows);
  for (std::int64_t p = 0; p < panels.columns; p += tile_columns) {
    for (std::int64_t s = 0; s < strips; ++s) {
      panel_tile<true>(panels.width(p), accumulate, panels.rows, strip[s], panels.at(0, p),
                       scratch.sums + s * tile_rows * block_columns + p, block_columns);
    }
  }
}

// A tile of whole width whose right operand has rows `b_row` apart.
[[gnu::noinline]] inline void unpacked_tile(bool accumulate, std::int64_t count,
                                            const LeftOperand& left, const float* b,
                                            std::int64_t b_row, float* c, std::int64_t c_row) {
  if (accumulate) {
    tile_matmul<tile_vectors, true, true>(count, left, b, b_row, c, c_row);
  } else {
    tile_matmul<tile_vectors, false, true>(count, left, b, b_row, c, c_row);
  }
}

// Right operand whose columns are the `rows` rows of `from`; columns beyond repeat the last.
template <typename T>
void pack_rows_as_columns(const Panels& to, const HeadRows<const T>& from, std::int64_t rows) {
  for (std::int64_t column = 0; column < to.columns; column += lanes) {
    const std::int64_t panel = column / tile_columns * tile_columns;
    const std::int64_t width = to.width(panel);
    float* const out = to.at(0, panel) + (column - panel);
    const T* row[lanes];
    for (int j = 0; j < lanes; ++j)
      row[j] = from.row(std::min(column + j, rows - 1));
    std::int64_t k = 0;
    for (; k + lanes <= to.rows; k += lanes) {
      Vector square[lanes];
#pragma GCC unroll 16
      for (int j = 0; j < lanes; ++j)
        square[j] = load_vector(row[j] + k);
      transpose(square);
#pragma GCC unroll 16
      for (int j = 0; j < lanes; ++j)
        store_vector(out + (k + j) * width, square[j]);
    }
    for (; k < to.rows; ++k) {
      for (int j = 0; j < lanes; ++j)
        out[k * width + j] = load(row[j][k]);
    }
  }
}

// Right operand whose rows are the rows of `from`, read in their order; columns beyond are zeros.
template <typename T>
void pack_rows(const Panels& to, const HeadRows<const T>& from, std::int64_t columns) {
  for (std::int64_t r = 0; r < to.rows; ++r) {
    const T* const in = from.row(r);
    for (std::int64_t c = 0; c < columns; c += lanes) {
      const std::int64_t panel = c / tile_columns * tile_columns;
      float* const out = to.at(r, panel) + (c - panel);
      if (c + lanes <= columns) {
        store_vector(out, load_vector(in + c));
      } else {
        for (std::int64_t j = 0; j < lanes; ++j)
          out[j] = c + j < columns ? load(in[c + j]) : 0.0F;
      }
    }
  }
}

// y(rows, outputs) = sums(outputs, rows)^T + bias, where bias may be null. Both have whole vectors
// beyond their ends in `sums`, with values that mean nothing.
template <typename Y>
void finish_transposed(Y* y, std::int64_t y_stride, const float* sums, std::int64_t stride,
                       const float* bias, std::int64_t rows, std::int64_t outputs) {
  for (std::int64_t r = 0; r < rows; r += lanes) {
    const std::int64_t tall = std::min<std::int64_t>(lanes, rows - r);
    for (std::int64_t o = 0; o < outputs; o += lanes) {
      Vector square[lanes];
#pragma GCC unroll 16
      for (int j = 0; j < lanes; ++j)
        square[j] = load_vector(sums + (o + j) * stride + r) +
                    (bias == nullptr || o + j >= outputs ? 0.0F : bias[o + j]);
      transpose(square);
      for (std::int64_t i = 0; i < tall; ++i) {
        Y* const to = y + (r + i) * y_stride + o;
        if (o + lanes <= outputs) {
          store_vector(to, square[i]);
        } else {
          for (std::int64_t j = 0; j < outputs - o; ++j)
            store(to[j], square[i][j]);
        }
      }
    }
  }
}

// y = x w^T + bias; bias may be null. Reads w once in its order, for as many rows as fit the
// second-level cache.
template <typename Y, typename X, typename W>
void rows_forward(const LinearSizes& n, Y* y, const X* x, const W* w, const float* bias) {
  const std::int64_t most =
      std::clamp(cached_floats / n.inputs / tile_columns, std::int64_t{2}, std::int64_t{8}) *
      tile_columns;
  const ProductScratch scratch =
      ProductScratch::of(n.inputs * most, tile_rows * block_depth, (block_rows + lanes) * most);
  for (std::int64_t first = 0; first < n.rows; first += most) {
    const std::int64_t rows = std::min(most, n.rows - first);
    const Panels panels{scratch.panels, n.inputs, Panels::padded(rows)};
    pack_rows_as_columns(panels, HeadRows<const X>{x + first * n.inputs, n.inputs}, rows);
    for (std::int64_t o = 0; o < n.outputs; o += block_rows) {
      const std::int64_t outputs = std::min(block_rows, n.outputs - o);
      multiply_strips(scratch, HeadRows<const W>{w + o * n.inputs, n.inputs}, outputs, panels);
      finish_transposed(y + first * n.outputs + o, n.outputs, scratch.sums, panels.columns,
                        bias == nullptr ? nullptr : bias + o, rows, outputs);
    }
  }
}

// rows_backward_input for at most few_rows rows: reads w in its order while it multiplies.
template <typename DX, typename DY>
void few_rows_backward_input(const LinearSizes& n, DX* dx, const DY* dy, const float* w,
                             bool accumulate) {
  const std::int64_t stride = padded_stride(round_up(n.inputs, tile_columns));
  const std::int64_t whole = n.inputs / tile_columns * tile_columns;
  const ProductScratch scratch = ProductScratch::of(few_depth * tile_columns, few_rows * few_depth,
                                                    round_up(n.rows, tile_rows) * stride);
  for (std::int64_t o = 0; o < n.outputs; o += few_depth) {
    const std::int64_t depth = std::min(few_depth, n.outputs - o);
    const float* const from = w + o * n.inputs;
    LeftOperand strip[few_rows / tile_rows];
    for (std::int64_t s = 0; s * tile_rows < n.rows; ++s)
      strip[s] = packed_strip(scratch.left + s * tile_rows * depth,
                              HeadRows<const DY>{dy, n.outputs}, s * tile_rows, n.rows, o, depth);
    const auto multiply = [&](std::int64_t column, const float* right, std::int64_t right_row) {
      for (std::int64_t s = 0; s * tile_rows < n.rows; ++s)
        unpacked_tile(o > 0, depth, strip[s], right, right_row,
                      scratch.sums + s * tile_rows * stride + column, stride);
    };
    const auto multiply_packed = [&](std::int64_t column, std::int64_t columns) {
      pack_rows({scratch.panels, depth, tile_columns},
                HeadRows<const float>{from + column, n.inputs}, columns);
      multiply(column, scratch.panels, tile_columns);
    };
    for (std::int64_t p = 0; p < whole; p += tile_columns) {
      if (n.rows <= very_few_rows) {
        multiply(p, from + p, n.inputs);
      } else {
        multiply_packed(p, tile_columns);
      }
    }
    if (whole < n.inputs) {
      std::fill_n(scratch.panels, depth * tile_columns, 0.0F);
      multiply_packed(whole, n.inputs - whole);
    }
  }
  finish_rows(dx, n.inputs, scratch.sums, stride, nullptr, accumulate ? dx : nullptr, n.inputs,
              n.rows, n.inputs);
}

// dx (+)= dy w, rounded once.
template <typename DX, typename DY, typename W>
void rows_backward_input(const LinearSizes& n, DX* dx, const DY* dy, const W* w, bool accumulate) {
  if constexpr (std::is_same_v<W, float>) {
    if (n.rows <= few_rows) {
      few_rows_backward_input(n, dx, dy, w, accumulate);
      return;
    }
  }
  const ProductScratch scratch = ProductScratch::of(
      block_depth * block_columns, input_rows * block_depth, input_rows * block_columns);
  for (std::int64_t first = 0; first < n.rows; first += input_rows) {
    const std::int64_t rows = std::min(input_rows, n.rows - first);
    for (std::int64_t i = 0; i < n.inputs; i += block_columns) {
      const std::int64_t inputs = std::min(block_columns, n.inputs - i);
      for (std::int64_t o = 0; o < n.outputs; o += block_depth) {
        const std::int64_t depth = std::min(block_depth, n.outputs - o);
        const Panels panels{scratch.panels, depth, Panels::padded(inputs)};
        pack_rows(panels, HeadRows<const W>{w + o * n.inputs + i, n.inputs}, inputs);
        multiply_block(scratch, HeadRows<const DY>{dy + first * n.outputs + o, n.outputs}, rows,
                       panels, o > 0);
      }
      DX* const out = dx + first * n.inputs + i;
      finish_rows(out, n.inputs, scratch.sums, block_columns, nullptr, accumulate ? out : nullptr,
                  n.inputs, rows, inputs);
    }
  }
}

// A tile of dw(outputs, inputs) at its end, by way of a whole one.
inline void edge_tile(float* dw, std::int64_t stride, std::int64_t outputs, std::int64_t inputs,
                      std::int64_t width, std::int64_t depth, const LeftOperand& left,
                      const float* panel) {
  float tile[tile_rows * tile_columns] = {};
  for (std::int64_t o = 0; o < outputs; ++o)
    std::copy_n(dw + o * stride, inputs, tile + o * tile_columns);
  panel_tile<false>(width, true, depth, left, panel, tile, tile_columns);
  for (std::int64_t o = 0; o < outputs; ++o)
    std::copy_n(tile + o * tile_columns, inputs, dw + o * stride);
}

// Left operand: strips of `tile_rows` columns of `from`, each row after row, zeros beyond
// `columns`. Reads the rows in their order.
template <typename T>
void pack_columns(float* to, const HeadRows<const T>& from, std::int64_t rows,
                  std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* const in = from.row(r);
    float* out = to + r * tile_rows;
    std::int64_t c = 0;
    for (; c + tile_rows <= columns; c += tile_rows, out += rows * tile_rows) {
#pragma GCC unroll 16
      for (int j = 0; j < tile_rows; ++j)
        out[j] = load(in[c + j]);
    }
    for (std::int64_t j = 0; c < columns && j < tile_rows; ++j)
      out[j] = c + j < columns ? load(in[c + j]) : 0.0F;
  }
}

// dw(outputs, inputs) += left * panels, where left has strips of `tile_rows` columns. Goes along
// the rows of dw, its largest operand.
inline void add_block(float* dw, std::int64_t stride, std::int64_t outputs, std::int64_t inputs,
                      const float* left, const Panels& panels) {
  for (std::int64_t s = 0; s < outputs; s += tile_rows) {
    const LeftOperand strip{left + s * panels.rows, 1, tile_rows};
    for (std::int64_t p = 0; p < panels.columns; p += tile_columns) {
      const std::int64_t width = panels.width(p), wide = std::min(width, inputs - p);
      float* const to = dw + s * stride + p;
      for (std::int64_t r = 0; r < tile_rows && s + r < outputs; ++r) {
        for (int j = 0; j < tile_vectors; ++j)
          __builtin_prefetch(to + r * stride + tile_columns + j * lanes, 1);  // the next tile
      }
      if (s + tile_rows <= outputs && wide == width) {
        panel_tile<false>(width, true, panels.rows, strip, panels.at(0, p), to, stride);
      } else {
        edge_tile(to, stride, std::min<std::int64_t>(tile_rows, outputs - s), wide, width,
                  panels.rows, strip, panels.at(0, p));
      }
    }
  }
}

// db += column sums of dy, row after row; db may be null.
template <typename T>
void add_rows(float* db, const T* dy, std::int64_t rows, std::int64_t outputs) {
  for (std::int64_t row = 0; db != nullptr && row < rows; ++row) {
    const T* const in = dy + row * outputs;
#pragma omp simd
    for (std::int64_t o = 0; o < outputs; ++o)
      db[o] += load(in[o]);
  }
}

// dw += dy^T x, and db, which may be null, += column sums of dy.
template <typename DY, typename X>
void rows_backward_weight(const LinearSizes& n, float* dw, float* db, const DY* dy, const X* x) {
  const std::int64_t depth = std::clamp<std::int64_t>(n.rows, 1, block_depth);
  const std::int64_t most = std::min(round_up(n.inputs, tile_columns),
                                     cached_floats / depth / tile_columns * tile_columns);
  const ProductScratch scratch = ProductScratch::of(depth * most, block_rows * depth, 0);
  for (std::int64_t first = 0; first < n.rows; first += depth) {
    const std::int64_t rows = std::min(depth, n.rows - first);
    for (std::int64_t i = 0; i < n.inputs; i += most) {
      const std::int64_t inputs = std::min(most, n.inputs - i);
      const Panels panels{scratch.panels, rows, Panels::padded(inputs)};
      pack_rows(panels, HeadRows<const X>{x + first * n.inputs + i, n.inputs}, inputs);
      for (std::int64_t o = 0; o < n.outputs; o += block_rows) {
        const std::int64_t outputs = std::min(block_rows, n.outputs - o);
        pack_columns(scratch.left, HeadRows<const DY>{dy + first * n.outputs + o, n.outputs}, rows,
                     outputs);
        add_block(dw + o * n.inputs + i, n.inputs, outputs, inputs, scratch.left, panels);
      }
    }
  }
  add_rows(db, dy, n.rows, n.outputs);
}

}  // namespace trireme::ops::cpu
