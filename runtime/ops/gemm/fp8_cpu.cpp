// SPDX-License-Identifier: Apache-2.0
// Codes are widened, with blocks also scaled, both exactly, and multiplied in f32. Chunk sizes are
// constants: the same call gives the same bits.
#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/magnitude_cpu.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/gemm/fp8.h"
#include "runtime/ops/gemm/fp8_math.h"
#include "runtime/ops/gemm/linear_rows_cpu.h"
#include "runtime/ops/gemm/matmul_cpu.h"

namespace trireme::ops::cpu {
namespace {

constexpr std::int64_t chunk_rows = 512;
constexpr std::int64_t chunk_columns = 2048;

// The outputs for x (rows, columns); codes or turned may be null.
template <typename Code, typename T>
struct Encoding {
  Code *codes, *turned;
  float* scale;
  const T* x;
  std::int64_t rows, columns;

  // From the largest magnitude, if it is known.
  void find_scale(const std::uint32_t* amax) const {
    const std::uint32_t largest = amax == nullptr ? largest_magnitude_of(x, rows * columns) : *amax;
    *scale = Fp8Scale(largest, Code::largest).scale;
  }

  // Tile by tile, so that the transposed part stays in the first-level cache.
  void operator()() const {
    constexpr std::int64_t side = 64;
    const float inverse = Fp8Scale(*scale).inverse;
    for (std::int64_t row = 0; row < rows; row += side) {
      for (std::int64_t column = 0; column < columns; column += side)
        encode_tile<side>(row, column, inverse);
    }
  }

 private:
  template <std::int64_t side>
  void encode_tile(std::int64_t row, std::int64_t column, float inverse) const {
    Code tile[side][side];
    const std::int64_t height = std::min(side, rows - row),
                       width = std::min(side, columns - column);
    for (std::int64_t r = 0; r < height; ++r) {
      const T* const from = x + (row + r) * columns + column;
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c)
        store(tile[r][c], load(from[c]) * inverse);
      if (codes != nullptr) std::copy_n(tile[r], width, codes + (row + r) * columns + column);
    }
    if (turned == nullptr) return;
    for (std::int64_t c = 0; c < width; ++c) {
      Code* const to = turned + (column + c) * rows + row;
      for (std::int64_t r = 0; r < height; ++r)
        to[r] = tile[r][c];
    }
  }
};

template <typename Action>
void visit_encoding(const Fp8Operand& q, const Tensor& x, const Action& action) {
  visit_compute_dtype(x.dtype, [&](auto from) {
    visit_float8(q.any().codes.dtype, [&]<typename Code>(Code) {
      using T = decltype(from);
      action(Encoding<Code, T>{q.straight.codes.empty() ? nullptr : q.straight.codes.as<Code>(),
                               q.turned.codes.empty() ? nullptr : q.turned.codes.as<Code>(),
                               q.any().scale.as<float>(), x.as<T>(), x.shape.rows(),
                               x.shape.back()});
    });
  });
}

constexpr std::int64_t side = Fp8Blocks::side;
using Square = float[side][side];

// Codes and scales of x, a square of the matrix from (row, column) on.
void encode_square(const Fp8BlockCodes& to, const Square& x, std::int64_t row,
                   std::int64_t column) {
  const Fp8Blocks& blocks = to.blocks;
  const std::int64_t height = std::min(side, blocks.rows - row),
                     width = std::min(side, blocks.columns - column);
  if (blocks.scaling == Fp8Scaling::row_32)
    std::fill_n(to.scales + blocks.place(row, column), 4 * side, std::byte{0});
  for (std::int64_t r = 0; r < height; r += blocks.high()) {
    for (std::int64_t c = 0; c < width; c += blocks.wide()) {
      const std::int64_t below = std::min(r + blocks.high(), height),
                         columns = std::min(blocks.wide(), width - c);
      std::uint32_t largest = 0;
      for (std::int64_t i = r; i < below; ++i)
        largest = std::max(largest, largest_magnitude_of(x[i] + c, columns));
      const Fp8Scale factor(largest, f8e4m3::largest);
      blocks.store(to.scales, row + r, column + c, factor.scale);
      for (std::int64_t i = r; i < below; ++i) {
        f8e4m3* const out = to.codes + (row + i) * blocks.columns + column + c;
#pragma omp simd
        for (std::int64_t j = 0; j < columns; ++j)
          store(out[j], x[i][c + j] * factor.inverse);
      }
    }
  }
}

template <typename T>
void encode_blocks(const Fp8BlockCodes& to, const Fp8BlockCodes& to_turned, const T* x) {
  const std::int64_t rows = to.blocks.rows, columns = to.blocks.columns;
  static thread_local Square straight, turned;
  for (std::int64_t row = 0; row < rows; row += side) {
    for (std::int64_t column = 0; column < columns; column += side) {
      for (std::int64_t r = 0; r < std::min(side, rows - row); ++r) {
        for (std::int64_t c = 0; c < std::min(side, columns - column); ++c)
          turned[c][r] = straight[r][c] = load(x[(row + r) * columns + column + c]);
      }
      if (to.codes != nullptr) encode_square(to, straight, row, column);
      if (to_turned.codes != nullptr) encode_square(to_turned, turned, column, row);
    }
  }
}

// Rows of codes at any stride.
struct Codes {
  const std::byte *data, *scales;
  Fp8Blocks blocks;
  std::int64_t rows;
  DType dtype;

  explicit Codes(const Fp8Matrix& matrix)
      : data(matrix.codes.data),
        scales(matrix.scale.data),
        blocks{matrix.scaling, matrix.codes.shape[0], matrix.codes.shape[1]},
        rows(matrix.codes.shape[0]),
        dtype(matrix.codes.dtype) {}

  void widen(float* to, std::int64_t stride, std::int64_t first, std::int64_t count,
             std::int64_t depth) const {
    visit_float8(dtype, [&]<typename Code>(Code) {
      copy_rows(to, stride, reinterpret_cast<const Code*>(data) + first * depth, depth, count,
                depth);
    });
    if (blocks.scaling == Fp8Scaling::tensor) return;
    for (std::int64_t row = 0; row < count; ++row) {
      for (std::int64_t at = 0; at < depth; at += blocks.wide()) {
        const float scale = blocks.load(scales, first + row, at);
        float* const block = to + row * stride + at;
#pragma omp simd
        for (std::int64_t i = 0; i < std::min(blocks.wide(), depth - at); ++i)
          block[i] *= scale;
      }
    }
  }
  // Of all codes.
  [[nodiscard]] float scale() const {
    return blocks.scaling == Fp8Scaling::tensor ? blocks.load(scales, 0, 0) : 1.0F;
  }
};

template <typename T>
struct Gemm {
  T* y;
  const float* bias;
  const T* residual;
  Codes a, b;
  std::int64_t depth;

  void operator()() const {
    const float scale = a.scale() * b.scale();
    const std::int64_t stride = padded_stride(depth);
    const std::int64_t a_rows = std::min(chunk_rows, a.rows);
    const std::int64_t b_rows = std::min(chunk_columns, b.rows);
    static thread_local ScratchBlock block;
    float* const wide_a =
        block.floats(static_cast<std::size_t>((a_rows + b_rows) * stride + a_rows * b_rows));
    float* const wide_b = wide_a + a_rows * stride;
    float* const product = wide_b + b_rows * stride;
    for (std::int64_t column = 0; column < b.rows; column += chunk_columns) {
      const std::int64_t columns = std::min(chunk_columns, b.rows - column);
      b.widen(wide_b, stride, column, columns, depth);
      for (std::int64_t row = 0; row < a.rows; row += chunk_rows) {
        const std::int64_t rows = std::min(chunk_rows, a.rows - row);
        a.widen(wide_a, stride, row, rows, depth);
        matmul(rows, columns, depth, {wide_a, stride}, {wide_b, stride, Transpose::yes}, 0.0F,
               product, columns);
#pragma omp simd
        for (std::int64_t i = 0; i < rows * columns; ++i)
          product[i] *= scale;
        const std::int64_t at = row * b.rows + column;
        finish_rows(y + at, b.rows, product, columns, bias == nullptr ? nullptr : bias + column,
                    residual == nullptr ? nullptr : residual + at, b.rows, rows, columns);
      }
    }
  }
};

}  // namespace

void quantize_fp8(Stream& stream, const Fp8Operand& q, const Tensor& x, const Tensor& amax) {
  if (q.any().scaling != Fp8Scaling::tensor) {
    const std::int64_t rows = x.shape.rows(), columns = x.shape.back();
    const Fp8BlockCodes straight(q.straight, q.any().scaling, rows, columns),
        turned(q.turned, q.any().scaling, columns, rows);
    visit_compute_dtype(x.dtype, [&](auto type) {
      enqueue(stream, [straight, turned, from = x.as<decltype(type)>()] {
        encode_blocks(straight, turned, from);
      });
    });
    return;
  }
  const std::uint32_t* const known = amax.empty() ? nullptr : amax.as<std::uint32_t>();
  visit_encoding(q, x, [&](const auto& encoding) {
    enqueue(stream, [encoding, known] {
      encoding.find_scale(known);
      encoding();
    });
  });
}

void encode_fp8(Stream& stream, const Fp8Operand& q, const Tensor& x) {
  visit_encoding(q, x, [&](const auto& encoding) { enqueue(stream, encoding); });
}

void linear_fp8(Stream& stream, const Tensor& y, const Fp8Matrix& a, const Fp8Matrix& b,
                const Tensor& bias, const Tensor& residual) {
  if (y.count() == 0) return;
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    enqueue(stream, Gemm<T>{y.as<T>(), bias.empty() ? nullptr : bias.as<float>(),
                            residual.empty() ? nullptr : residual.as<T>(), Codes(a), Codes(b),
                            a.codes.shape[1]});
  });
}

}  // namespace trireme::ops::cpu
