// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/common/maps_cuda.h"
#include "runtime/ops/common/rows_cuda.h"
#include "runtime/ops/elementwise/activation_maps.h"

namespace trireme::ops::cuda {
namespace {

constexpr int gated_threads = 256;  // per block

template <typename F, bool aligned, typename T, bool measured>
__global__ void gated_forward_kernel(T* y, const T* x, RowPacks packs, std::int64_t columns,
                                     LargestMagnitude magnitude) {
  MagnitudesSeen<T> seen;
  packs.each([&](std::int64_t row, std::int64_t index) {
    const std::int64_t column = index * pack_width<T>;
    const T* const gates = x + 2 * row * columns;
    auto gate = row_pack<aligned>(gates, column, columns);
    const auto value = row_pack<aligned>(gates + columns, column, columns);
#pragma unroll
    for (int j = 0; j < pack_width<T>; ++j) {
      store(gate[j], F::value(load(gate[j])) * F::factor(load(value[j])));
    }
    store_row_pack<aligned>(y + row * columns, column, columns, gate);
    if constexpr (measured) seen.see(gate);
  });
  if constexpr (measured) magnitude.leave<gated_threads>(seen);
}

template <typename F, bool aligned, typename T, bool measured>
__global__ void gated_backward_kernel(T* dx, const T* dy, const T* x, RowPacks packs,
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
      const float g = load(gate[j]), v = load(value[j]), dy_j = load(slope[j]);
      const float dgate = dy_j * F::factor(v) * F::slope(g);
      store(value[j], F::of_value(F::times(dy_j, g), v));
      store(gate[j], dgate);
    }
    T* const out = dx + 2 * row * columns;
    store_row_pack<aligned>(out, column, columns, gate);
    store_row_pack<aligned>(out + columns, column, columns, value);
    if constexpr (measured) {
      seen.see(gate);
      seen.see(value);
    }
  });
  if constexpr (measured) magnitude.leave<gated_threads>(seen);
}

// Calls action(aligned, measured).
template <typename Action>
void with_flags(bool aligned, const Tensor& amax, const Action& action) {
  with_flag(aligned, [&](auto packs) {
    with_flag(!amax.empty(), [&](auto measured) { action(packs, measured); });
  });
}

}  // namespace

void gated_forward(Stream& stream, const Tensor& y, const Tensor& x, ActivationKind kind,
                   const Tensor& amax) {
  if (y.count() == 0) return;
  visit(y.dtype, kind, [&]<typename T, typename F>(T, F) {
    const std::int64_t columns = y.shape.back();
    const RowPacks packs(y.count() / columns, columns, pack_width<T>);
    const auto grid = grid_for(stream, packs.count(), gated_threads);
    with_flags(rows_align<T>(y.as<T>(), columns) && rows_align<T>(x.as<T>(), columns), amax,
               [&](auto aligned, auto measured) {
                 launch(stream, grid, gated_forward_kernel<F, aligned, T, measured>, y.as<T>(),
                        x.as<T>(), packs, columns, largest_magnitude_in(stream, amax));
               });
  });
}

void gated_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x,
                    ActivationKind kind, const Tensor& amax) {
  if (dy.count() == 0) return;
  visit(dx.dtype, kind, [&]<typename T, typename F>(T, F) {
    const std::int64_t columns = dy.shape.back();
    const RowPacks packs(dy.count() / columns, columns, pack_width<T>);
    const auto grid = grid_for(stream, packs.count(), gated_threads);
    with_flags(rows_align<T>(dx.as<T>(), columns) && rows_align<T>(dy.as<T>(), columns) &&
                   rows_align<T>(x.as<T>(), columns),
               amax, [&](auto aligned, auto measured) {
                 launch(stream, grid, gated_backward_kernel<F, aligned, T, measured>, dx.as<T>(),
                        dy.as<T>(), x.as<T>(), packs, columns, largest_magnitude_in(stream, amax));
               });
  });
}

TRIREME_CUDA_PROVIDES(ops, gated_forward, gated_backward);

}  // namespace trireme::ops::cuda
