// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/common/maps_cpu.h"
#include "runtime/ops/loss/target_rank_maps.h"

namespace trireme::ops::cpu {
namespace {

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

void target_ranks(Stream& stream, const Tensor& ranks, const Tensor& values, const Tensor& logits,
                  const Tensor& targets, const ClassBlock& block, bool accumulate) {
  visit_compute_dtype(logits.dtype, [&]<typename T>(T) {
    enqueue(stream, [ranks = ranks.as<float>(), values = values.as<float>(),
                     block = RankBlock<T>(logits, targets, block), accumulate] {
      for (std::int64_t row = 0; row < block.rows; ++row) {
        const std::int64_t target = block.targets[row];
        float rank = INFINITY;
        if (target >= 0) {
          const T* const logit = block.logits + row * block.width;
          const std::int64_t earlier =
              std::clamp(target - block.first, std::int64_t{0}, block.filled);
          rank = static_cast<float>(
              count_before<true>(logit, earlier, values[row]) +
              count_before<false>(logit + earlier, block.filled - earlier, values[row]));
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
