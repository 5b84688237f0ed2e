// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/loss/cross_entropy.h"

#include "runtime/ops/loss/cross_entropy_row_cuda.h"

namespace trireme::ops::cuda {
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
};

// A thread's state over its part of a row: sums relative to the largest value so far, which starts
// at the lowest finite value, because differences from minus infinity would be NaN.
struct Online {
  float top = -FLT_MAX;
  float exponentials = 0.0F;
  float distances = 0.0F;
  float values = 0.0F;             // how many
  std::int64_t first = INT64_MAX;  // column of the first value that equals `top`
};

template <typename T, int width>
__device__ void add_pack(Online& online, const Pack<T, width>& pack, std::int64_t column,
                         std::int64_t classes) {
  float largest = -FLT_MAX;
#pragma unroll
  for (int j = 0; j < width; ++j) {
    if (column + j < classes) largest = fmaxf(largest, load(pack[j]));
  }
  if (largest > online.top) {
    const float change = online.top - largest;
    online.exponentials *= row_exp<T>(change);
    if (online.values > 0.0F) online.distances += online.values * change;
    online.top = largest;
    online.first = INT64_MAX;
  }
#pragma unroll
  for (int j = 0; j < width; ++j) {
    if (column + j >= classes) continue;
    const float distance = load(pack[j]) - online.top;
    online.exponentials += row_exp<T>(distance);
    online.distances += distance;
    online.values += 1.0F;
    if (distance == 0.0F && online.first == INT64_MAX) online.first = column + j;
  }
}

struct Least {
  template <typename V>
  __device__ V operator()(V a, V b) const {
    return b < a ? b : a;
  }
};

template <int threads, bool aligned, typename T>
__global__ void __launch_bounds__(threads) cross_entropy_kernel(CrossEntropy<T> p) {
  T* const row = p.logits + blockIdx.x * p.stride;
  const std::int64_t classes = p.options.classes;
  const std::int64_t target = p.targets[blockIdx.x];
  if (target < 0) {
    if (threadIdx.x == 0) {
      p.losses[blockIdx.x] = 0.0F;
      if (p.correct != nullptr) p.correct[blockIdx.x] = 0.0F;
    }
    if (p.options.write_gradient) {
      write_row_gradient<threads, aligned>(row, 0, p.stride, -1, RowGradient(0.0F, 1.0, p.options));
    }
    return;
  }
  // Saved before the gradient overwrites it.
  const bool known = target < classes;
  const float own = known ? load(row[target]) : nanf("");
  const TargetMix mix = target_mix(p.options, p.targets, blockIdx.x, p.rows);
  const float other = mix.other < 0 ? 0.0F : mix.other < classes ? load(row[mix.other]) : nanf("");

  Online online;
  each_row_pack<threads, aligned>(row, classes, [&](std::int64_t column, const auto& pack) {
    add_pack(online, pack, column, classes);
  });
  const float top = block_reduce<threads>(online.top, -FLT_MAX, Largest{});
  const float behind = online.top - top;
  const double exponentials = block_reduce<threads>(
      static_cast<double>(online.exponentials) * static_cast<double>(row_exp<T>(behind)), 0.0,
      Sum{});
  double distances = 0.0;
  if (p.options.label_smoothing != 0.0F) {
    const double here = online.values == 0.0F
                            ? 0.0
                            : static_cast<double>(online.distances) +
                                  static_cast<double>(online.values) * static_cast<double>(behind);
    distances = block_reduce<threads>(here, 0.0, Sum{});
  }
  if (p.correct != nullptr) {
    const std::int64_t first =
        block_reduce<threads>(online.top == top ? online.first : INT64_MAX, INT64_MAX, Least{});
    if (threadIdx.x == 0) p.correct[blockIdx.x] = first == target ? 1.0F : 0.0F;
  }
  const float weight = row_weight(p.options, blockIdx.x, known ? target : 0);
  double distance = static_cast<double>(own) - static_cast<double>(top);
  if (mix.other >= 0) {
    distance = static_cast<double>(mix.share) * distance +
               (1.0 - static_cast<double>(mix.share)) *
                   (static_cast<double>(other) - static_cast<double>(top));
  }
  if (threadIdx.x == 0) {
    p.losses[blockIdx.x] = weight * row_loss({exponentials, distances}, distance, top, p.options);
  }
  if (p.options.write_gradient) {
    CrossEntropyOptions weighted = p.options;
    weighted.gradient_scale *= weight;
    write_row_gradient<threads, aligned>(row, classes, p.stride, target,
                                         RowGradient(top, exponentials, weighted), mix);
  }
}

constexpr int thread_rows_threads = 256;

template <typename T>
__global__ void thread_rows_kernel(CrossEntropy<T> p) {
  const std::int64_t classes = p.options.classes;
  const std::int64_t all = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; index < p.rows; index += all) {
    T* const row = p.logits + index * p.stride;
    const std::int64_t target = p.targets[index];
    const bool counted = counts(p.targets[index]), known = counted && target < classes;
    float top = -FLT_MAX;
    std::int64_t first = 0;
    for (std::int64_t c = 0; counted && c < classes; ++c) {
      const float value = load(row[c]);
      if (value > top) first = c;
      top = fmaxf(top, value);
    }
    RowSums sums;
    for (std::int64_t c = 0; counted && c < classes; ++c) {
      const float distance = load(row[c]) - top;
      sums.exponentials += static_cast<double>(row_exp<T>(distance));
      sums.distances += static_cast<double>(distance);
    }
    const float own = known ? load(row[target]) : nanf("");
    const float weight = counted ? row_weight(p.options, index, known ? target : 0) : 0.0F;
    const double distance = static_cast<double>(own) - static_cast<double>(top);
    p.losses[index] = counted ? weight * row_loss(sums, distance, top, p.options) : 0.0F;
    if (p.correct != nullptr) p.correct[index] = counted && first == target ? 1.0F : 0.0F;
    if (!p.options.write_gradient) continue;
    CrossEntropyOptions weighted = p.options;
    weighted.gradient_scale *= weight;
    const RowGradient gradient(top, sums.exponentials, weighted);
    for (std::int64_t i = 0; i < p.stride; ++i)
      store(row[i], counted && i < classes ? gradient(row[i], i, target, {}) : 0.0F);
  }
}

// One block; sums of integers, so the order does not matter.
template <typename Target>
__global__ void __launch_bounds__(long_row_threads)
    count_targets_kernel(double* total, const Target* targets, std::int64_t count, bool zeros) {
  double mine = 0.0;
  for (std::int64_t i = threadIdx.x; i < count; i += long_row_threads)
    mine += (zeros ? targets[i] == 0 : counts(targets[i])) ? 1.0 : 0.0;
  const double all = block_reduce<long_row_threads>(mine, 0.0, Sum{});
  if (threadIdx.x == 0) *total += all;
}

}  // namespace

void cross_entropy(Stream& stream, const Tensor& losses, const Tensor& correct,
                   const Tensor& logits, const Tensor& targets,
                   const CrossEntropyOptions& options) {
  visit_compute_dtype(logits.dtype, [&]<typename T>(T) {
    const CrossEntropy<T> work{losses.as<float>(),
                               correct.empty() ? nullptr : correct.as<float>(),
                               logits.as<T>(),
                               targets.as<std::int32_t>(),
                               logits.shape[0],
                               logits.shape[1],
                               options};
    if (options.thread_rows) {
      constexpr int threads = thread_rows_threads;
      return launch(stream, grid_for(stream, work.rows, threads, threads), thread_rows_kernel<T>,
                    work);
    }
    with_row_kernel(work.logits, work.stride, [&](auto threads, auto aligned) {
      launch(stream, {.blocks = work.rows, .threads = threads},
             cross_entropy_kernel<threads, aligned, T>, work);
    });
  });
}

void count_targets(Stream& stream, const Tensor& total, const Tensor& targets, bool zeros) {
  const auto add = [&]<typename Target>(const Target* first) {
    launch(stream, {.blocks = 1, .threads = long_row_threads}, count_targets_kernel<Target>,
           total.as<double>(), first, targets.count(), zeros);
  };
  if (targets.dtype == DType::f32) return add(targets.as<float>());
  add(targets.as<std::int32_t>());
}

TRIREME_CUDA_PROVIDES(ops, cross_entropy, count_targets);

}  // namespace trireme::ops::cuda
