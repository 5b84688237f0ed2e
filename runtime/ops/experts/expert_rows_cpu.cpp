// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/experts/expert_rows.h"

#include <algorithm>
#include <cstring>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/experts/expert_rows_math.h"

namespace trireme::ops::cpu {
namespace {

// y = residual + sum over a token's slots of weights * rows; `sums` holds `columns` floats.
template <typename T>
void collect_token(T* y, const T* rows, std::int64_t columns, const std::int32_t* places,
                   const float* weights, std::int64_t slots, const T* residual, float* sums) {
  std::fill_n(sums, columns, 0.0F);
  for (std::int64_t j = 0; j < slots; ++j) {
    const T* const row = rows + places[j] * columns;
    const float weight = weights == nullptr ? 1.0F : weights[j];
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i)
      sums[i] += weight * load(row[i]);
  }
  if (residual == nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i)
      store(y[i], sums[i]);
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i)
      store(y[i], load(residual[i]) + sums[i]);
  }
}

}  // namespace

void order_slots(Stream& stream, const Tensor& places, const Tensor& offsets, const Tensor& slots) {
  enqueue(stream, [to = places.as<std::int32_t>(), offsets = offsets.as<std::int32_t>(),
                   experts = offsets.shape[0] - 1, slots = slots.as<std::int32_t>(),
                   count = slots.count()] {
    // Counts one entry further on, sums, then moves each entry from its expert's first row to the
    // next one's, which leaves the table shifted by one.
    std::fill_n(offsets, experts + 1, 0);
    for (std::int64_t i = 0; i < count; ++i)
      ++offsets[slots[i] + 1];
    for (std::int64_t e = 0; e < experts; ++e)
      offsets[e + 1] += offsets[e];
    for (std::int64_t i = 0; i < count; ++i)
      to[i] = offsets[slots[i]]++;
    std::copy_backward(offsets, offsets + experts, offsets + experts + 1);
    offsets[0] = 0;
  });
}

void spread_rows(Stream& stream, const Tensor& rows, const Tensor& x, const Tensor& places) {
  enqueue(stream, [to = rows.data, from = x.data, places = places.as<std::int32_t>(),
                   slots = places.shape[1], count = places.count(),
                   bytes = static_cast<std::int64_t>(size_of(x.dtype)) * x.shape[1]] {
    for (std::int64_t i = 0; i < count; ++i)
      std::memcpy(to + places[i] * bytes, from + i / slots * bytes,
                  static_cast<std::size_t>(bytes));
  });
}

void collect_rows(Stream& stream, const Tensor& y, const Tensor& rows, const Tensor& places,
                  const Tensor& weights, const Tensor& residual) {
  visit_compute_dtype(y.dtype, [&]<typename T>(T) {
    enqueue(stream,
            [y = y.as<T>(), rows = rows.as<T>(), columns = rows.shape[1],
             places = places.as<std::int32_t>(), tokens = places.shape[0], slots = places.shape[1],
             weights = weights.empty() ? nullptr : weights.as<float>(),
             residual = residual.empty() ? nullptr : residual.as<T>()] {
              static thread_local ScratchBlock block;
              float* const sums = block.floats(static_cast<std::size_t>(columns));
              for (std::int64_t t = 0; t < tokens; ++t)
                collect_token(y + t * columns, rows, columns, places + t * slots,
                              weights == nullptr ? nullptr : weights + t * slots, slots,
                              residual == nullptr ? nullptr : residual + t * columns, sums);
            });
  });
}

void received_offsets(Stream& stream, const Tensor& offsets, const Tensor& counts,
                      const ReceivedRows& rows) {
  enqueue(stream, [to = offsets.as<std::int32_t>(), counts = counts.as<std::int32_t>(),
                   sources = counts.shape[0], parts = counts.shape[1], all = counts.shape[2],
                   experts = (offsets.count() - 1) / counts.shape[0], rows] {
    to[0] = 0;
    for (std::int64_t i = 0; i < sources * experts; ++i)
      to[i + 1] = to[i] + rows_of_group(counts, parts, all, i / experts, i % experts, rows);
  });
}

}  // namespace trireme::ops::cpu
