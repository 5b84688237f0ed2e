// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/experts/grouped_linear.h"

#include <algorithm>
#include <type_traits>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/experts/grouped_matmul_cpu.h"
#include "runtime/ops/experts/router.h"
#include "runtime/ops/gemm/matmul_cpu.h"
#include "runtime/ops/gemm/split_matmul_cpu.h"

namespace trireme::ops::cpu {
namespace {

// visit(matrix, its rows, its first row) for each group [first, end) that has rows.
template <typename Visit>
void for_each_group(const std::int32_t* offsets, std::int64_t first, std::int64_t end,
                    std::int64_t matrices, const Visit& visit) {
  for (std::int64_t g = first; g < end; ++g) {
    const std::int64_t row = offsets[g], rows = offsets[g + 1] - row;
    if (rows > 0) visit(g % matrices, rows, row);
  }
}

// Where the processor has tiles for bf16 (AMX), oneDNN multiplies 64 rows at a time, never another
// number: so a result depends on its own row alone.
constexpr std::int64_t tile_block = 64;

enum class Way : std::uint8_t { chains, tiles, parts };
Way way_of(const Stream& stream, DType dtype, F32Products f32) {
  if (!multiplies_in_parts()) return Way::chains;
  if (dtype == DType::f32) return f32 == F32Products::parts ? Way::parts : Way::chains;
  return dtype == DType::bf16 && stream.device().has_native_bf16() ? Way::tiles : Way::chains;
}

// multiply(to, from) for each block of 64 rows, the last of which is completed with zeros.
template <typename T, typename Multiply>
void in_blocks(std::int64_t rows, T* to, std::int64_t to_width, const T* from,
               std::int64_t from_width, const Multiply& multiply) {
  std::int64_t row = 0;
  for (; row + tile_block <= rows; row += tile_block)
    multiply(to + row * to_width, from + row * from_width);
  if (row == rows) return;
  static thread_local ScratchBlock block;
  auto* const whole = reinterpret_cast<T*>(
      block.at_least(static_cast<std::size_t>(tile_block * (from_width + to_width)) * sizeof(T)));
  T* const result = whole + tile_block * from_width;
  const std::int64_t used = (rows - row) * from_width;
  std::copy_n(from + row * from_width, used, whole);
  std::fill_n(whole + used, tile_block * from_width - used, T{});
  multiply(result, whole);
  std::copy_n(result, (rows - row) * to_width, to + row * to_width);
}

// The products of one group.
template <typename T>
void multiply(Way way, const LinearSizes& n, T* y, const T* x, const T* w, const float* bias) {
  if constexpr (std::is_same_v<T, float>) {
    if (way == Way::parts) {
      split_matmul(n.rows, n.outputs, n.inputs, {x, n.inputs}, {w, n.inputs, Transpose::yes}, false,
                   y, AddBiasResidual{bias, nullptr});
      return;
    }
  }
  if (way == Way::chains) return rows_forward(n, y, x, w, bias);
  in_blocks(n.rows, y, n.outputs, x, n.inputs, [&](T* result, const T* block) {
    native_forward(DType::bf16, tile_block, n.outputs, n.inputs, result, block, w, bias, nullptr);
  });
}

template <typename T>
void multiply_back(Way way, const LinearSizes& n, T* dx, const T* dy, const T* w) {
  if constexpr (std::is_same_v<T, float>) {
    if (way == Way::parts) {
      split_matmul(n.rows, n.inputs, n.outputs, {dy, n.outputs}, {w, n.inputs}, false, dx,
                   nothing_more);
      return;
    }
  }
  if (way == Way::chains) return rows_backward_input(n, dx, dy, w, false);
  in_blocks(n.rows, dx, n.inputs, dy, n.outputs, [&](T* result, const T* block) {
    native_backward_input(DType::bf16, tile_block, n.outputs, n.inputs, result, block, w, false);
  });
}

template <typename T>
void add_products(Way way, const LinearSizes& n, float* dw, float* db, const T* dy, const T* x) {
  if constexpr (std::is_same_v<T, float>) {
    if (way == Way::parts) {
      split_matmul(n.outputs, n.inputs, n.rows, {dy, n.outputs, Transpose::yes}, {x, n.inputs},
                   true, dw, nothing_more);
      add_rows(db, dy, n.rows, n.outputs);
      return;
    }
  }
  rows_backward_weight(n, dw, db, dy, x);
}

// The sum of products of two rows, over lanes first.
template <typename T, typename U>
float dot(const T* a, const U* b, std::int64_t count) {
  Vector sums{};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    sums += load_vector(a + i) * load_vector(b + i);
  float rest = 0;
  for (; i < count; ++i)
    rest += load(a[i]) * load(b[i]);
  return sum_of(sums) + rest;
}

template <typename T>
void scale_row(T* row, float factor, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i)
    store(row[i], factor * load(row[i]));
}

}  // namespace

void grouped_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& w,
                     const Tensor& bias, const Tensor& offsets, F32Products f32) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    enqueue(stream, [y = y.as<T>(), x = x.as<T>(), w = w.as<T>(), matrices = w.shape[0],
                     outputs = w.shape[1], inputs = w.shape[2],
                     bias = bias.empty() ? nullptr : bias.as<float>(),
                     offsets = offsets.as<std::int32_t>(), groups = offsets.shape[0] - 1,
                     way = way_of(stream, x.dtype, f32)] {
      for_each_group(
          offsets, 0, groups, matrices, [&](std::int64_t m, std::int64_t rows, std::int64_t row) {
            multiply(way, {rows, outputs, inputs}, y + row * outputs, x + row * inputs,
                     w + m * outputs * inputs, bias == nullptr ? nullptr : bias + m * outputs);
          });
    });
  });
}

void grouped_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                            const Tensor& offsets, F32Products f32) {
  visit_compute_dtype(dx.dtype, [&]<typename T>(T) {
    enqueue(stream,
            [dx = dx.as<T>(), dy = dy.as<T>(), w = w.as<T>(), matrices = w.shape[0],
             outputs = w.shape[1], inputs = w.shape[2], offsets = offsets.as<std::int32_t>(),
             groups = offsets.shape[0] - 1, way = way_of(stream, dx.dtype, f32)] {
              for_each_group(offsets, 0, groups, matrices,
                             [&](std::int64_t m, std::int64_t rows, std::int64_t row) {
                               multiply_back(way, {rows, outputs, inputs}, dx + row * inputs,
                                             dy + row * outputs, w + m * outputs * inputs);
                             });
            });
  });
}

void grouped_backward_weight(Stream& stream, const Tensor& dw, const Tensor& db, const Tensor& dy,
                             const Tensor& x, const Tensor& offsets, std::int64_t first,
                             std::int64_t count, F32Products f32) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    enqueue(stream, [dw = dw.as<float>(), db = db.empty() ? nullptr : db.as<float>(),
                     dy = dy.as<T>(), x = x.as<T>(), matrices = dw.shape[0], outputs = dw.shape[1],
                     inputs = dw.shape[2], offsets = offsets.as<std::int32_t>(), first, count,
                     way = way_of(stream, x.dtype, f32)] {
      for_each_group(offsets, first, first + count, matrices,
                     [&](std::int64_t m, std::int64_t rows, std::int64_t row) {
                       add_products(way, {rows, outputs, inputs}, dw + m * outputs * inputs,
                                    db == nullptr ? nullptr : db + m * outputs, dy + row * outputs,
                                    x + row * inputs);
                     });
    });
  });
}

void grouped_backward_slots(Stream& stream, const Tensor& dweights, const Tensor& dx,
                            const Tensor& dy, const Tensor& x, const Tensor& weights,
                            const Tensor& bias, const Tensor& offsets) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    enqueue(stream, [dweights = dweights.as<float>(), dx = dx.as<T>(), dy = dy.as<T>(),
                     x = x.as<T>(), weights = weights.as<float>(), inputs = x.shape[1],
                     outputs = dy.shape[1], bias = bias.empty() ? nullptr : bias.as<float>(),
                     matrices = bias.empty() ? 1 : bias.shape[0],
                     offsets = offsets.as<std::int32_t>(), groups = offsets.shape[0] - 1] {
      for_each_group(offsets, 0, groups, matrices,
                     [&](std::int64_t m, std::int64_t rows, std::int64_t row) {
                       for (std::int64_t r = row; r < row + rows; ++r) {
                         T* const dx_row = dx + r * inputs;
                         T* const dy_row = dy + r * outputs;
                         const float weight = weights[r];
                         const float of_bias =
                             bias == nullptr ? 0.0F : dot(dy_row, bias + m * outputs, outputs);
                         dweights[r] = dot(dx_row, x + r * inputs, inputs) + of_bias;
                         scale_row(dx_row, weight, inputs);
                         scale_row(dy_row, weight, outputs);
                       }
                     });
    });
  });
}

void router_logits(Stream& stream, const Tensor& logits, const Tensor& x, const Tensor& w,
                   const Tensor& bias) {
  const LinearSizes sizes{x.shape[0], w.shape[0], w.shape[1]};
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    enqueue(stream, [sizes, logits = logits.as<float>(), x = x.as<T>(), w = w.as<float>(),
                     bias = bias.empty() ? nullptr : bias.as<float>()] {
      rows_forward(sizes, logits, x, w, bias);
    });
  });
}

void router_backward_input(Stream& stream, const Tensor& dx, const Tensor& dlogits,
                           const Tensor& w) {
  const LinearSizes sizes{dx.shape[0], w.shape[0], w.shape[1]};
  visit_compute_dtype(dx.dtype, [&]<typename T>(T) {
    enqueue(stream, [sizes, dx = dx.as<T>(), dlogits = dlogits.as<float>(), w = w.as<float>()] {
      rows_backward_input(sizes, dx, dlogits, w, true);
    });
  });
}

void router_backward_weight(Stream& stream, const Tensor& dw, const Tensor& db,
                            const Tensor& dlogits, const Tensor& x) {
  const LinearSizes sizes{x.shape[0], dw.shape[0], dw.shape[1]};
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    enqueue(stream, [sizes, dw = dw.as<float>(), db = db.empty() ? nullptr : db.as<float>(),
                     dlogits = dlogits.as<float>(),
                     x = x.as<T>()] { rows_backward_weight(sizes, dw, db, dlogits, x); });
  });
}

}  // namespace trireme::ops::cpu
