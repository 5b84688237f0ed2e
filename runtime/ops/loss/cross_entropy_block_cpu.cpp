// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss/cross_entropy_block.h"

#include <algorithm>

#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/common/scratch.h"
#include "runtime/ops/loss/cross_entropy_row_cpu.h"

namespace trireme::ops::cpu {
namespace {

template <typename T>
struct Block {
  T* logits;
  std::int64_t rows;
  std::int64_t width;
  std::int64_t first_class;
  std::int64_t classes;  // of the whole vocabulary

  explicit Block(const Tensor& tensor, std::int64_t first, std::int64_t all)
      : logits(tensor.as<T>()),
        rows(tensor.shape[0]),
        width(tensor.shape[1]),
        first_class(first),
        classes(all) {}

  [[nodiscard]] T* row(std::int64_t index) const { return logits + index * width; }
  // Columns that are not padding.
  [[nodiscard]] std::int64_t filled() const {
    return std::clamp(classes - first_class, std::int64_t{0}, width);
  }
};

template <typename T>
std::int64_t count_equal(const T* row, std::int64_t count, float value) {
  std::int32_t result = 0;  // as wide as a float: half the work of 64 bits
#pragma omp simd reduction(+ : result)
  for (std::int64_t i = 0; i < count; ++i)
    result += load(row[i]) == value ? 1 : 0;
  return result;
}

template <typename T>
struct Sums {
  double* sums;
  const float* maxima;
  Block<T> block;
  const std::int32_t* targets;

  void run_row(std::int64_t index, float* exponentials) const {
    double* const out = sums + index * CrossEntropySums::count;
    const std::int64_t target = targets[index];
    std::fill_n(out, static_cast<int>(CrossEntropySums::count), 0.0);
    if (target < 0) return;
    TRIREME_EXPECTS(target < block.classes,
                    "cross_entropy: target {} in row {} is outside the {} classes", target, index,
                    block.classes);
    const T* const row = block.row(index);
    const float top = maxima[index];
    const std::int64_t filled = block.filled();
    const RowSums row_sums = exponentiate(exponentials, row, top, filled);
    out[CrossEntropySums::exponentials] = row_sums.exponentials;
    out[CrossEntropySums::distances] = row_sums.distances;
    const std::int64_t local = target - block.first_class;
    std::int64_t rivals = count_equal(row, std::clamp(local, std::int64_t{0}, filled), top);
    if (local >= 0 && local < filled) {
      const float own = load(row[local]);
      out[CrossEntropySums::target_distance] = static_cast<double>(own - top);
      if (!(own == top)) ++rivals;
    }
    out[CrossEntropySums::rivals] = static_cast<double>(rivals);
  }

  void operator()() const {
    static thread_local ScratchBlock scratch;
    float* const exponentials = scratch.floats(static_cast<std::size_t>(block.width));
    for (std::int64_t index = 0; index < block.rows; ++index)
      run_row(index, exponentials);
  }
};

template <typename T>
struct Finish {
  float* losses;   // may be null
  float* correct;  // may be null
  Block<T> block;
  const float* maxima;
  const double* sums;
  const std::int32_t* targets;
  CrossEntropyOptions options;

  void write_results(std::int64_t index) const {
    const double* const all = sums + index * CrossEntropySums::count;
    const bool counted = targets[index] >= 0;
    if (losses != nullptr) {
      const RowSums row_sums{all[CrossEntropySums::exponentials], all[CrossEntropySums::distances]};
      losses[index] = counted ? row_loss(row_sums, all[CrossEntropySums::target_distance],
                                         maxima[index], options)
                              : 0.0F;
    }
    if (correct != nullptr) {
      correct[index] = counted && all[CrossEntropySums::rivals] == 0.0 ? 1.0F : 0.0F;
    }
  }

  void write_gradient(std::int64_t index, float* exponentials) const {
    T* const row = block.row(index);
    if (targets[index] < 0) {
      std::fill_n(row, block.width, T{});
      return;
    }
    const std::int64_t filled = block.filled();
    const std::int64_t local = targets[index] - block.first_class;
    exponentiate(exponentials, row, maxima[index], filled);
    write_row_gradient(row, exponentials, filled, block.width,
                       {.own = local >= 0 && local < filled ? local : -1},
                       sums[index * CrossEntropySums::count + CrossEntropySums::exponentials],
                       maxima[index], options);
  }

  void operator()() const {
    static thread_local ScratchBlock scratch;
    float* const exponentials = scratch.floats(static_cast<std::size_t>(block.width));
    for (std::int64_t index = 0; index < block.rows; ++index) {
      write_results(index);
      if (options.write_gradient) write_gradient(index, exponentials);
    }
  }
};

}  // namespace

void cross_entropy_block_max(Stream& stream, const Tensor& maxima, const Tensor& logits,
                             std::int64_t first_class, std::int64_t classes, bool accumulate) {
  visit_compute_dtype(logits.dtype, [&]<typename T>(T) {
    enqueue(stream, [block = Block<T>(logits, first_class, classes), maxima = maxima.as<float>(),
                     accumulate] {
      for (std::int64_t index = 0; index < block.rows; ++index) {
        // A maximum of -0 or +0 would depend on the order; + 0 makes it +0.
        const float largest = largest_of(block.row(index), block.filled()) + 0.0F;
        maxima[index] = accumulate ? std::max(maxima[index], largest) : largest;
      }
    });
  });
}

void cross_entropy_block_sums(Stream& stream, const Tensor& sums, const Tensor& maxima,
                              const Tensor& logits, const Tensor& targets, std::int64_t first_class,
                              const CrossEntropyOptions& options) {
  visit_compute_dtype(logits.dtype, [&]<typename T>(T) {
    enqueue(stream,
            Sums<T>{sums.as<double>(), maxima.as<float>(),
                    Block<T>(logits, first_class, options.classes), targets.as<std::int32_t>()});
  });
}

void cross_entropy_block_finish(Stream& stream, const Tensor& losses, const Tensor& correct,
                                const Tensor& logits, const Tensor& maxima, const Tensor& sums,
                                const Tensor& targets, std::int64_t first_class,
                                const CrossEntropyOptions& options) {
  visit_compute_dtype(logits.dtype, [&]<typename T>(T) {
    enqueue(stream, Finish<T>{losses.empty() ? nullptr : losses.as<float>(),
                              correct.empty() ? nullptr : correct.as<float>(),
                              Block<T>(logits, first_class, options.classes), maxima.as<float>(),
                              sums.as<double>(), targets.as<std::int32_t>(), options});
  });
}

}  // namespace trireme::ops::cpu
