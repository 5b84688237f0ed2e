// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/magnitude_cuda.h"
#include "runtime/ops/common/rows_cuda.h"
#include "runtime/ops/elementwise/swiglu.h"
#include "runtime/ops/elementwise/swiglu_math.h"

namespace trireme::ops::cuda {
namespace {

// Finite: products with what underflows meanwhile stay 0.
__device__ float exp_minus(float gate) {
  return expf(gate < -88.0F ? 88.0F : -gate);
}

constexpr int swiglu_threads = 256;  // of a block

template <bool aligned, typename T, bool measured>
__global__ void forward_kernel(T* y, const T* x, RowPacks packs, std::int64_t columns,
                               LargestMagnitude magnitude) {
  MagnitudesSeen<T> seen;
  packs.each([&](std::int64_t row, std::int64_t index) {
    const std::int64_t column = index * pack_width<T>;
    const T* const gates = x + 2 * row * columns;
    auto gate = row_pack<aligned>(gates, column, columns);
    const auto value = row_pack<aligned>(gates + columns, column, columns);
#pragma unroll
    for (int j = 0; j < pack_width<T>; ++j) {
      const float g = load(gate[j]);
      store(gate[j], swiglu_value(g, load(value[j]), exp_minus(g)));
    }
    store_row_pack<aligned>(y + row * columns, column, columns, gate);
    if constexpr (measured) seen.see(gate);
  });
  if constexpr (measured) magnitude.leave<swiglu_threads>(seen);
}

template <bool aligned, typename T, bool measured>
__global__ void backward_kernel(T* dx, const T* dy, const T* x, RowPacks packs,
                                std::int64_t columns, LargestMagnitude magnitude) {
  MagnitudesSeen<T> seen;
  packs.each([&](std::int64_t row, std::int64_t index) {
    const std::int64_t column = index * pack_width<T>;
    const T* const gates = x + 2 * row * columns;
    const auto slope = row_pack<aligned>(dy + row * columns, column, columns);
    auto gate = row_pack<aligned>(gates, column, columns);
    auto value = row_pack<aligned>(gates + columns, column, columns);
#pragma unroll
    for (int j = 0; j < pack_width<T>; ++j) {
      const float g = load(gate[j]);
      const auto gradient = swiglu_gradient(load(slope[j]), g, load(value[j]), exp_minus(g));
      store(gate[j], gradient.gate);
      store(value[j], gradient.value);
    }
    T* const out = dx + 2 * row * columns;
    store_row_pack<aligned>(out, column, columns, gate);
    store_row_pack<aligned>(out + columns, column, columns, value);
    if constexpr (measured) {
      seen.see(gate);
      seen.see(value);
    }
  });
  if constexpr (measured) magnitude.leave<swiglu_threads>(seen);
}

// Calls action(aligned, measured).
template <typename Action>
void with_flags(bool aligned, const Tensor& amax, const Action& action) {
  with_flag(aligned, [&](auto packs) {
    with_flag(!amax.empty(), [&](auto measured) { action(packs, measured); });
  });
}

}  // namespace

void swiglu_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& amax) {
  if (y.count() == 0) return;
  visit_compute_dtype(y.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t columns = y.shape.back();
    const RowPacks packs(y.count() / columns, columns, pack_width<T>);
    const auto grid = trireme::cuda::grid_for(stream, packs.count(), swiglu_threads);
    with_flags(rows_align<T>(y.as<T>(), columns) && rows_align<T>(x.as<T>(), columns), amax,
               [&](auto aligned, auto measured) {
                 trireme::cuda::launch(stream, grid, forward_kernel<aligned, T, measured>,
                                       y.as<T>(), x.as<T>(), packs, columns,
                                       largest_magnitude_in(stream, amax));
               });
  });
}

void swiglu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                     const Tensor& amax) {
  if (dy.count() == 0) return;
  visit_compute_dtype(dx.dtype, [&](auto type) {
    using T = decltype(type);
    const std::int64_t columns = dy.shape.back();
    const RowPacks packs(dy.count() / columns, columns, pack_width<T>);
    const auto grid = trireme::cuda::grid_for(stream, packs.count(), swiglu_threads);
    with_flags(rows_align<T>(dx.as<T>(), columns) && rows_align<T>(dy.as<T>(), columns) &&
                   rows_align<T>(x.as<T>(), columns),
               amax, [&](auto aligned, auto measured) {
                 trireme::cuda::launch(stream, grid, backward_kernel<aligned, T, measured>,
                                       dx.as<T>(), dy.as<T>(), x.as<T>(), packs, columns,
                                       largest_magnitude_in(stream, amax));
               });
  });
}

TRIREME_CUDA_PROVIDES(ops, swiglu_forward);
TRIREME_CUDA_PROVIDES(ops, swiglu_backward);

}  // namespace trireme::ops::cuda
