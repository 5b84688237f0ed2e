// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/experts/grouped_linear.h"
#include "runtime/ops/experts/grouped_matmul_cuda.h"
#include "runtime/ops/experts/grouped_mma_cuda.h"
#include "runtime/ops/experts/router.h"

namespace trireme::ops::cuda {
namespace {

RowGroups groups_of(const Tensor& rows, const Tensor& offsets, std::int64_t matrices) {
  return {offsets.as<std::int32_t>(), offsets.shape[0] - 1, rows.shape[0], matrices};
}
RowGroups one_group(const Tensor& rows) {
  return {nullptr, 1, rows.shape[0], 1};
}

const float* optional_floats(const Tensor& tensor) {
  return tensor.empty() ? nullptr : tensor.as<float>();
}

template <bool plain, typename To, typename From, typename W>
void multiply_rows(Stream& stream, To* to, const From* from, const W* w, const float* bias,
                   bool adds, const RowGroups& groups, std::int64_t columns, std::int64_t terms) {
  launch(stream, {.blocks = groups.most_tiles() * ceil_div(columns, tile), .threads = threads},
         multiply_rows_kernel<plain, To, From, W>, to, from, w, bias, adds, groups, columns, terms);
}

// Of one dtype: 16 bits on tensor cores.
template <bool plain, typename T>
void multiply_groups(Stream& stream, const Tensor& to, const Tensor& from, const Tensor& w,
                     const Tensor& bias, const Tensor& offsets) {
  const std::int64_t columns = to.shape[1], terms = from.shape[1];
  const RowGroups groups = groups_of(to, offsets, w.shape[0]);
  if constexpr (std::is_same_v<T, float>) {
    multiply_rows<plain>(stream, to.as<T>(), from.as<T>(), w.as<T>(), optional_floats(bias), false,
                         groups, columns, terms);
  } else {
    const bool aligned = packs_fit(from.as<T>(), terms, pack_width<T>) &&
                         packs_fit(w.as<T>(), plain ? columns : terms, pack_width<T>);
    launch(stream,
           {.blocks = groups.most_tiles() * ceil_div(columns, mma_columns), .threads = threads},
           multiply_rows_mma_kernel<plain, T>, to.as<T>(), from.as<T>(), w.as<T>(),
           optional_floats(bias), aligned, groups, columns, terms);
  }
}

template <typename DY, typename X>
void multiply_columns(Stream& stream, const Tensor& dw, const Tensor& db, const DY* dy, const X* x,
                      const RowGroups& groups, std::int64_t first, std::int64_t count) {
  const std::int64_t inputs = dw.shape.back(), outputs = dw.count() / inputs / groups.matrices;
  const std::int64_t tiles = ceil_div(outputs, tile) * ceil_div(inputs, tile);
  launch(stream, {.blocks = groups.matrices * tiles, .threads = threads},
         multiply_columns_kernel<DY, X>, dw.as<float>(), db.empty() ? nullptr : db.as<float>(), dy,
         x, groups, first, first + count, outputs, inputs);
}

template <typename T>
void multiply_columns_mma(Stream& stream, const Tensor& dw, const Tensor& db, const T* dy,
                          const T* x, const RowGroups& groups, std::int64_t first,
                          std::int64_t count) {
  const std::int64_t outputs = dw.shape[1], inputs = dw.shape[2];
  const std::int64_t tiles = ceil_div(outputs, tile) * ceil_div(inputs, mma_columns);
  const bool aligned = packs_fit(dy, outputs, pack_width<T>) && packs_fit(x, inputs, pack_width<T>);
  launch(stream, {.blocks = groups.matrices * tiles, .threads = threads},
         multiply_columns_mma_kernel<T>, dw.as<float>(), db.empty() ? nullptr : db.as<float>(), dy,
         x, aligned, groups, first, first + count, outputs, inputs);
}

constexpr int slot_warps = 8;

// A warp for each row.
template <typename T>
__global__ void __launch_bounds__(warp_size* slot_warps)
    slots_kernel(float* dweights, T* dx, T* dy, const T* x, const float* weights, const float* bias,
                 RowGroups groups, std::int64_t inputs, std::int64_t outputs) {
  const std::int64_t row = std::int64_t{blockIdx.x} * slot_warps + threadIdx.x / warp_size;
  const std::int64_t lane = threadIdx.x % warp_size;
  if (row >= groups.offsets[groups.count]) return;
  dx += row * inputs;
  x += row * inputs;
  dy += row * outputs;
  if (bias != nullptr) bias += groups.find(row, 1, 0) % groups.matrices * outputs;
  const float weight = weights[row];
  float sum = 0;
  for (std::int64_t i = lane; i < inputs; i += warp_size) {
    const float value = load(dx[i]);
    sum += value * load(x[i]);
    store(dx[i], weight * value);
  }
  for (std::int64_t o = lane; o < outputs; o += warp_size) {
    const float value = load(dy[o]);
    if (bias != nullptr) sum += value * bias[o];
    store(dy[o], weight * value);
  }
  sum = warp_reduce(sum, Sum{});
  if (lane == 0) dweights[row] = sum;
}

}  // namespace

void grouped_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& w,
                     const Tensor& bias, const Tensor& offsets, F32Products /*of CPUs*/) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    multiply_groups<false, decltype(type)>(stream, y, x, w, bias, offsets);
  });
}

void grouped_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                            const Tensor& offsets, F32Products /*of CPUs*/) {
  visit_compute_dtype(dx.dtype, [&](auto type) {
    multiply_groups<true, decltype(type)>(stream, dx, dy, w, {}, offsets);
  });
}

void grouped_backward_weight(Stream& stream, const Tensor& dw, const Tensor& db, const Tensor& dy,
                             const Tensor& x, const Tensor& offsets, std::int64_t first,
                             std::int64_t count, F32Products /*of CPUs*/) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    const RowGroups groups = groups_of(x, offsets, dw.shape[0]);
    if constexpr (std::is_same_v<T, float>) {
      multiply_columns(stream, dw, db, dy.as<T>(), x.as<T>(), groups, first, count);
    } else {
      multiply_columns_mma(stream, dw, db, dy.as<T>(), x.as<T>(), groups, first, count);
    }
  });
}

void grouped_backward_slots(Stream& stream, const Tensor& dweights, const Tensor& dx,
                            const Tensor& dy, const Tensor& x, const Tensor& weights,
                            const Tensor& bias, const Tensor& offsets) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    launch(stream, {.blocks = ceil_div(x.shape[0], slot_warps), .threads = warp_size * slot_warps},
           slots_kernel<T>, dweights.as<float>(), dx.as<T>(), dy.as<T>(), x.as<T>(),
           weights.as<float>(), optional_floats(bias),
           groups_of(x, offsets, bias.empty() ? 1 : bias.shape[0]), x.shape[1], dy.shape[1]);
  });
}

void router_logits(Stream& stream, const Tensor& logits, const Tensor& x, const Tensor& w,
                   const Tensor& bias) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    multiply_rows<false>(stream, logits.as<float>(), x.as<decltype(type)>(), w.as<float>(),
                         optional_floats(bias), false, one_group(x), w.shape[0], w.shape[1]);
  });
}

void router_backward_input(Stream& stream, const Tensor& dx, const Tensor& dlogits,
                           const Tensor& w) {
  visit_compute_dtype(dx.dtype, [&](auto type) {
    multiply_rows<true>(stream, dx.as<decltype(type)>(), dlogits.as<float>(), w.as<float>(),
                        nullptr, true, one_group(dx), w.shape[1], w.shape[0]);
  });
}

void router_backward_weight(Stream& stream, const Tensor& dw, const Tensor& db,
                            const Tensor& dlogits, const Tensor& x) {
  visit_compute_dtype(x.dtype, [&](auto type) {
    multiply_columns(stream, dw, db, dlogits.as<float>(), x.as<decltype(type)>(), one_group(x), 0,
                     1);
  });
}

TRIREME_CUDA_PROVIDES(ops, grouped_forward, grouped_backward_input, grouped_backward_weight,
                      grouped_backward_slots, router_logits, router_backward_input,
                      router_backward_weight);

}  // namespace trireme::ops::cuda
