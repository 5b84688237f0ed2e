// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/cross_entropy_cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/float_types.h"
#include "runtime/ops/scratch.h"
#include "runtime/ops/vector_math.h"

namespace trireme::ops::cpu {
namespace {

// Float sums over at most this many values join in double: 50,000 classes keep their last bits.
constexpr std::int64_t sum_chunk = 2048;

template <typename T>
struct CrossEntropy {
  float* losses;
  float* hits;  // may be null
  T* logits;
  const std::int32_t* targets;
  std::int64_t rows;
  std::int64_t stride;
  CrossEntropyOptions options;

  static float largest(const T* row, std::int64_t count) {
    float result = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : result)
    for (std::int64_t i = 0; i < count; ++i)
      result = std::max(result, load(row[i]));
    return result;
  }

  struct Sums {
    double exponentials = 0.0;  // of x - largest
    double distances = 0.0;     // x - largest, for the smoothed part of the target
  };
  // Leaves e^(x - largest) in `exponentials`.
  static Sums exponentiate(float* exponentials, const T* row, float top, std::int64_t count) {
    Sums sums;
    for (std::int64_t first = 0; first < count; first += sum_chunk) {
      const std::int64_t end = std::min(first + sum_chunk, count);
      float exponential_sum = 0.0F;
      float distance_sum = 0.0F;
#pragma omp simd reduction(+ : exponential_sum, distance_sum)
      for (std::int64_t i = first; i < end; ++i) {
        const float distance = load(row[i]) - top;
        const float e = fast_exp(distance);
        exponentials[i] = e;
        exponential_sum += e;
        distance_sum += distance;
      }
      sums.exponentials += static_cast<double>(exponential_sum);
      sums.distances += static_cast<double>(distance_sum);
    }
    return sums;
  }

  void write_gradient(T* row, const float* exponentials, const Sums& sums,
                      std::int64_t target) const {
    const float scale = options.gradient_scale;
    const auto factor = static_cast<float>(static_cast<double>(scale) / sums.exponentials);
    const float spread = scale * options.label_smoothing / static_cast<float>(options.classes);
    const float at_target =
        exponentials[target] * factor - spread - scale * (1.0F - options.label_smoothing);
#pragma omp simd
    for (std::int64_t i = 0; i < options.classes; ++i) {
      store(row[i], exponentials[i] * factor - spread);
    }
    store(row[target], at_target);
    std::fill(row + options.classes, row + stride, T{});
  }

  void run_row(std::int64_t index, float* exponentials) const {
    T* const row = logits + index * stride;
    const std::int64_t target = targets[index];
    if (target < 0) {
      losses[index] = 0.0F;
      if (hits != nullptr) hits[index] = 0.0F;
      if (options.write_gradient) std::fill_n(row, stride, T{});
      return;
    }
    TRIREME_EXPECTS(target < options.classes, "cross_entropy: target {} in row {}, but {} classes",
                    target, index, options.classes);
    const float top = largest(row, options.classes);
    const float own = load(row[target]);
    if (hits != nullptr) {
      // The arg-max is the first of equal maxima.
      const bool first = own == top && std::none_of(row, row + target, [top](const T& value) {
                           return load(value) == top;
                         });
      hits[index] = first ? 1.0F : 0.0F;
    }
    const Sums sums = exponentiate(exponentials, row, top, options.classes);
    const auto smoothing = static_cast<double>(options.label_smoothing);
    losses[index] = static_cast<float>(
        std::log(sums.exponentials) - (1.0 - smoothing) * static_cast<double>(own - top) -
        (smoothing == 0.0 ? 0.0
                          : smoothing * sums.distances / static_cast<double>(options.classes)));
    if (options.write_gradient) write_gradient(row, exponentials, sums, target);
  }

  void operator()() const {
    static thread_local ScratchBlock block;
    float* const exponentials = block.floats(static_cast<std::size_t>(options.classes));
    for (std::int64_t index = 0; index < rows; ++index)
      run_row(index, exponentials);
  }
};

}  // namespace

void cross_entropy(Stream& stream, const Tensor& losses, const Tensor& hits, const Tensor& logits,
                   const Tensor& targets, const CrossEntropyOptions& options) {
  visit_compute_dtype(logits.dtype, [&](auto type) {
    using T = decltype(type);
    enqueue(stream, CrossEntropy<T>{losses.as<float>(), hits.empty() ? nullptr : hits.as<float>(),
                                    logits.as<T>(), targets.as<std::int32_t>(), logits.shape[0],
                                    logits.shape[1], options});
  });
}

}  // namespace trireme::ops::cpu
