// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/target_rank.h"

#include <algorithm>
#include <limits>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/float_types.h"

namespace trireme::ops::cpu {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

std::int64_t filled_of(const Tensor& logits, const ClassBlock& block) {
  return std::clamp(block.classes - block.first, std::int64_t{0}, logits.shape[1]);
}

// Number of classes in [0, count) with a logit above `value`, or with `ties` equal to it.
template <bool ties, typename T>
std::int64_t count_before(const T* row, std::int64_t count, float value) {
  std::int32_t before = 0;  // as wide as a float: half the work of 64 bits
#pragma omp simd reduction(+ : before)
  for (std::int64_t i = 0; i < count; ++i)
    before += (ties ? load(row[i]) >= value : load(row[i]) > value) ? 1 : 0;
  return before;
}

}  // namespace

void target_logits(Stream& stream, const Tensor& values, const Tensor& logits,
                   const Tensor& targets, const ClassBlock& block, bool accumulate) {
  visit_compute_dtype(logits.dtype, [&]<typename T>(T) {
    enqueue(stream,
            [rows = logits.shape[0], width = logits.shape[1], filled = filled_of(logits, block),
             first = block.first, from = logits.as<T>(), values = values.as<float>(),
             targets = targets.as<std::int32_t>(), accumulate] {
              for (std::int64_t row = 0; row < rows; ++row) {
                const std::int64_t local = targets[row] - first;
                const bool here = targets[row] >= 0 && local >= 0 && local < filled;
                const float value = here ? load(from[row * width + local]) : -infinity;
                values[row] = accumulate ? std::max(values[row], value) : value;
              }
            });
  });
}

void target_ranks(Stream& stream, const Tensor& ranks, const Tensor& values, const Tensor& logits,
                  const Tensor& targets, const ClassBlock& block, bool accumulate) {
  visit_compute_dtype(logits.dtype, [&]<typename T>(T) {
    enqueue(stream, [rows = logits.shape[0], width = logits.shape[1],
                     filled = filled_of(logits, block), first = block.first, from = logits.as<T>(),
                     ranks = ranks.as<float>(), values = values.as<float>(),
                     targets = targets.as<std::int32_t>(), accumulate] {
      for (std::int64_t row = 0; row < rows; ++row) {
        float rank = infinity;
        if (targets[row] >= 0) {
          const T* const logit = from + row * width;
          const std::int64_t earlier = std::clamp(targets[row] - first, std::int64_t{0}, filled);
          rank = static_cast<float>(
              count_before<true>(logit, earlier, values[row]) +
              count_before<false>(logit + earlier, filled - earlier, values[row]));
        }
        ranks[row] = accumulate ? ranks[row] + rank : rank;
      }
    });
  });
}

void count_below(Stream& stream, const Tensor& total, const Tensor& values, float limit) {
  enqueue(stream,
          [total = total.as<double>(), first = values.as<float>(), count = values.count(), limit] {
            *total += static_cast<double>(std::count_if(
                first, first + count, [limit](float value) { return value < limit; }));
          });
}

}  // namespace trireme::ops::cpu
