// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/cross_entropy.h"

#include <algorithm>
#include <limits>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/loss/cross_entropy_row_cpu.h"

namespace trireme::ops::cpu {
namespace {

// Rows of a few classes, as of pixels, are read some at a time, so that vectors run over rows.
constexpr std::int64_t few_classes = 16, row_block = 64;

struct RowSoftmax {
  float top = 0.0F;
  RowSums sums{};
};

// Writes e^(x - largest) of `count` rows to `exponentials` (count, classes).
template <typename T>
void exponentiate_rows(float* exponentials, RowSoftmax* results, const T* logits,
                       std::int64_t count, std::int64_t stride, std::int64_t classes) {
  float value[few_classes][row_block], top[row_block], sum[row_block] = {}, away[row_block] = {};
  std::fill_n(top, row_block, -std::numeric_limits<float>::infinity());
  for (std::int64_t c = 0; c < classes; ++c) {
#pragma omp simd
    for (std::int64_t r = 0; r < row_block; ++r) {
      value[c][r] = r < count ? load(logits[r * stride + c]) : 0.0F;
      top[r] = std::max(top[r], value[c][r]);
    }
  }
  for (std::int64_t c = 0; c < classes; ++c) {
#pragma omp simd
    for (std::int64_t r = 0; r < row_block; ++r) {
      const float distance = value[c][r] - top[r];
      value[c][r] = fast_exp(distance);
      sum[r] += value[c][r];
      away[r] += distance;
    }
  }
  for (std::int64_t r = 0; r < count; ++r) {
    for (std::int64_t c = 0; c < classes; ++c)
      exponentials[r * classes + c] = value[c][r];
    results[r] = {top[r], {static_cast<double>(sum[r]), static_cast<double>(away[r])}};
  }
}

template <typename T>
struct CrossEntropy {
  float* losses;
  float* correct;  // may be null
  T* logits;
  const std::int32_t* targets;
  std::int64_t rows;
  std::int64_t stride;
  CrossEntropyOptions options;

  // `known`: of exponentiate_rows; otherwise it is computed here.
  void run_row(std::int64_t index, float* exponentials, const RowSoftmax* known = nullptr) const {
    T* const row = logits + index * stride;
    const std::int64_t target = targets[index];
    if (target < 0) {
      losses[index] = 0.0F;
      if (correct != nullptr) correct[index] = 0.0F;
      if (options.write_gradient) std::fill_n(row, stride, T{});
      return;
    }
    TRIREME_EXPECTS(target < options.classes,
                    "cross_entropy: target {} in row {} is outside the {} classes", target, index,
                    options.classes);
    const float top = known != nullptr ? known->top : largest_of(row, options.classes);
    const float own = load(row[target]);
    if (correct != nullptr) {
      // The arg-max is the first of equal maxima.
      const bool first = own == top && std::none_of(row, row + target, [top](const T& value) {
                           return load(value) == top;
                         });
      correct[index] = first ? 1.0F : 0.0F;
    }
    const TargetMix mix = target_mix(options, targets, index, rows);
    double distance = static_cast<double>(own - top);
    if (mix.other >= 0) {
      TRIREME_EXPECTS(mix.other < options.classes,
                      "cross_entropy: target {} is outside the {} classes", mix.other,
                      options.classes);
      const float others = load(row[mix.other]) - top;
      distance = static_cast<double>(mix.share) * distance +
                 (1.0 - static_cast<double>(mix.share)) * static_cast<double>(others);
    }
    const RowSums sums =
        known != nullptr ? known->sums : exponentiate(exponentials, row, top, options.classes);
    const float weight = row_weight(options, index, target);
    losses[index] = weight * row_loss(sums, distance, top, options);
    if (options.write_gradient) {
      CrossEntropyOptions weighted = options;
      weighted.gradient_scale *= weight;
      write_row_gradient(row, exponentials, options.classes, stride, {target, mix.other, mix.share},
                         sums.exponentials, top, weighted);
    }
  }

  void run_block(std::int64_t first) const {
    float exponentials[row_block * few_classes];
    RowSoftmax known[row_block];
    const std::int64_t count = std::min(row_block, rows - first);
    exponentiate_rows(exponentials, known, logits + first * stride, count, stride, options.classes);
    for (std::int64_t r = 0; r < count; ++r)
      run_row(first + r, exponentials + r * options.classes, known + r);
  }

  void operator()() const {
    if (options.classes <= few_classes) {
      for (std::int64_t first = 0; first < rows; first += row_block)
        run_block(first);
      return;
    }
    static thread_local ScratchBlock block;
    float* const exponentials = block.floats(static_cast<std::size_t>(options.classes));
    for (std::int64_t index = 0; index < rows; ++index)
      run_row(index, exponentials);
  }
};

}  // namespace

void cross_entropy(Stream& stream, const Tensor& losses, const Tensor& correct,
                   const Tensor& logits, const Tensor& targets,
                   const CrossEntropyOptions& options) {
  visit_compute_dtype(logits.dtype, [&]<typename T>(T) {
    enqueue(stream,
            CrossEntropy<T>{losses.as<float>(), correct.empty() ? nullptr : correct.as<float>(),
                            logits.as<T>(), targets.as<std::int32_t>(), logits.shape[0],
                            logits.shape[1], options});
  });
}

void count_targets(Stream& stream, const Tensor& total, const Tensor& targets, bool zeros) {
  const auto add = [&](const auto* first) {
    enqueue(stream, [total = total.as<double>(), first, count = targets.count(), zeros] {
      *total += static_cast<double>(std::count_if(first, first + count, [zeros](auto target) {
        return zeros ? target == 0 : counts(target);
      }));
    });
  };
  if (targets.dtype == DType::f32) return add(targets.as<float>());
  add(targets.as<std::int32_t>());
}

}  // namespace trireme::ops::cpu
