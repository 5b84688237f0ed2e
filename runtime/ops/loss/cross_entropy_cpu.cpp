// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/cross_entropy.h"

#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/loss/cross_entropy_row_cpu.h"

namespace trireme::ops::cpu {
namespace {

template <typename T>
struct CrossEntropy {
  float* losses;
  float* correct;  // may be null
  T* logits;
  const std::int32_t* targets;
  std::int64_t rows;
  std::int64_t stride;
  CrossEntropyOptions options;

  void run_row(std::int64_t index, float* exponentials) const {
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
    const float top = largest_of(row, options.classes);
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
    const RowSums sums = exponentiate(exponentials, row, top, options.classes);
    const float weight = row_weight(options, index, target);
    losses[index] = weight * row_loss(sums, distance, top, options);
    if (options.write_gradient) {
      CrossEntropyOptions weighted = options;
      weighted.gradient_scale *= weight;
      write_row_gradient(row, exponentials, options.classes, stride, {target, mix.other, mix.share},
                         sums.exponentials, top, weighted);
    }
  }

  void operator()() const {
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
  visit_compute_dtype(logits.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream,
            CrossEntropy<T>{losses.as<float>(), correct.empty() ? nullptr : correct.as<float>(),
                            logits.as<T>(), targets.as<std::int32_t>(), logits.shape[0],
                            logits.shape[1], options});
  });
}

void count_targets(Stream& stream, const Tensor& total, const Tensor& targets) {
  const auto add = [&](const auto* first) {
    enqueue(stream, [total = total.as<double>(), first, count = targets.count()] {
      *total += static_cast<double>(
          std::count_if(first, first + count, [](auto target) { return counts(target); }));
    });
  };
  if (targets.dtype == DType::f32) return add(targets.as<float>());
  add(targets.as<std::int32_t>());
}

}  // namespace trireme::ops::cpu
