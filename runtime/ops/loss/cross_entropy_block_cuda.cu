// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/loss/cross_entropy_block.h"

#include "runtime/ops/loss/cross_entropy_row_cuda.h"

namespace trireme::ops::cuda {
namespace {

template <typename T>
struct Block {
  T* logits;
  std::int64_t width;
  std::int64_t filled;  // columns that are not padding
  std::int64_t first_class;
  CrossEntropyOptions options;

  Block(const Tensor& tensor, std::int64_t first, const CrossEntropyOptions& all)
      : logits(tensor.as<T>()),
        width(tensor.shape[1]),
        filled(std::clamp(all.classes - first, std::int64_t{0}, tensor.shape[1])),
        first_class(first),
        options(all) {}
  __device__ T* row() const { return logits + blockIdx.x * width; }
};

template <int threads, bool aligned, typename T>
__global__ void __launch_bounds__(threads)
    block_max_kernel(float* maxima, Block<T> block, bool accumulate) {
  float top = -INFINITY;
  each_row_pack<threads, aligned>(block.row(), block.filled,
                                  [&](std::int64_t column, const auto& pack) {
#pragma unroll
                                    for (int j = 0; j < pack_width<T>; ++j) {
                                      if (column + j < block.filled)
                                        top = fmaxf(top, load(pack[j]));
                                    }
                                  });
  // A maximum of -0 or +0 would depend on the order; + 0 makes it +0.
  top = block_reduce<threads>(top, -INFINITY, Largest{}) + 0.0F;
  if (threadIdx.x != 0) return;
  float& result = maxima[blockIdx.x];
  result = accumulate ? (result < top ? top : result) : top;
}

template <int threads, bool aligned, typename T>
__global__ void __launch_bounds__(threads)
    block_sums_kernel(double* sums, const float* maxima, const std::int32_t* targets,
                      Block<T> block) {
  const T* const row = block.row();
  double* const out = sums + std::int64_t{blockIdx.x} * CrossEntropySums::count;
  const std::int64_t target = targets[blockIdx.x];
  if (target < 0) {
    if (threadIdx.x < CrossEntropySums::count) out[threadIdx.x] = 0.0;
    return;
  }
  const float top = maxima[blockIdx.x];
  const std::int64_t local = target - block.first_class;
  float exponentials = 0.0F, distances = 0.0F;
  int rivals = 0;
  each_row_pack<threads, aligned>(row, block.filled, [&](std::int64_t column, const auto& pack) {
#pragma unroll
    for (int j = 0; j < pack_width<T>; ++j) {
      if (column + j >= block.filled) continue;
      const float distance = load(pack[j]) - top;
      exponentials += row_exp<T>(distance);
      distances += distance;
      if (distance == 0.0F && column + j < local) ++rivals;
    }
  });
  const double exponential_sum =
      block_reduce<threads>(static_cast<double>(exponentials), 0.0, Sum{});
  const double distance_sum = block_reduce<threads>(static_cast<double>(distances), 0.0, Sum{});
  rivals = block_reduce<threads>(rivals, 0, Sum{});
  if (threadIdx.x != 0) return;
  out[CrossEntropySums::exponentials] = exponential_sum;
  out[CrossEntropySums::distances] = distance_sum;
  double target_distance = target < block.options.classes ? 0.0 : static_cast<double>(nanf(""));
  if (local >= 0 && local < block.filled) {
    const float own = load(row[local]);
    target_distance = static_cast<double>(own - top);
    if (!(own == top)) ++rivals;
  }
  out[CrossEntropySums::target_distance] = target_distance;
  out[CrossEntropySums::rivals] = static_cast<double>(rivals);
}

template <int threads, bool aligned, typename T>
__global__ void __launch_bounds__(threads)
    block_finish_kernel(float* losses, float* correct, const float* maxima, const double* sums,
                        const std::int32_t* targets, Block<T> block) {
  const double* const all = sums + std::int64_t{blockIdx.x} * CrossEntropySums::count;
  const std::int64_t target = targets[blockIdx.x];
  const double exponentials = all[CrossEntropySums::exponentials];
  if (threadIdx.x == 0 && losses != nullptr) {
    losses[blockIdx.x] = target < 0 ? 0.0F
                                    : row_loss({exponentials, all[CrossEntropySums::distances]},
                                               all[CrossEntropySums::target_distance],
                                               maxima[blockIdx.x], block.options);
  }
  if (threadIdx.x == 0 && correct != nullptr) {
    correct[blockIdx.x] = target >= 0 && all[CrossEntropySums::rivals] == 0.0 ? 1.0F : 0.0F;
  }
  if (!block.options.write_gradient) return;
  write_row_gradient<threads, aligned>(
      block.row(), target < 0 ? 0 : block.filled, block.width, target - block.first_class,
      RowGradient(maxima[blockIdx.x], exponentials, block.options));
}

}  // namespace

void cross_entropy_block_max(Stream& stream, const Tensor& maxima, const Tensor& logits,
                             std::int64_t first_class, std::int64_t classes, bool accumulate) {
  visit_compute_dtype(logits.dtype, [&]<typename T>(T) {
    CrossEntropyOptions options;
    options.classes = classes;
    const Block<T> block(logits, first_class, options);
    with_row_kernel(block.logits, block.width, [&](auto threads, auto aligned) {
      launch(stream, {.blocks = logits.shape[0], .threads = threads},
             block_max_kernel<threads, aligned, T>, maxima.as<float>(), block, accumulate);
    });
  });
}

void cross_entropy_block_sums(Stream& stream, const Tensor& sums, const Tensor& maxima,
                              const Tensor& logits, const Tensor& targets, std::int64_t first_class,
                              const CrossEntropyOptions& options) {
  visit_compute_dtype(logits.dtype, [&]<typename T>(T) {
    const Block<T> block(logits, first_class, options);
    with_row_kernel(block.logits, block.width, [&](auto threads, auto aligned) {
      launch(stream, {.blocks = logits.shape[0], .threads = threads},
             block_sums_kernel<threads, aligned, T>, sums.as<double>(), maxima.as<float>(),
             targets.as<std::int32_t>(), block);
    });
  });
}

void cross_entropy_block_finish(Stream& stream, const Tensor& losses, const Tensor& correct,
                                const Tensor& logits, const Tensor& maxima, const Tensor& sums,
                                const Tensor& targets, std::int64_t first_class,
                                const CrossEntropyOptions& options) {
  visit_compute_dtype(logits.dtype, [&]<typename T>(T) {
    const Block<T> block(logits, first_class, options);
    with_row_kernel(block.logits, block.width, [&](auto threads, auto aligned) {
      launch(stream, {.blocks = logits.shape[0], .threads = threads},
             block_finish_kernel<threads, aligned, T>,
             losses.empty() ? nullptr : losses.as<float>(),
             correct.empty() ? nullptr : correct.as<float>(), maxima.as<float>(), sums.as<double>(),
             targets.as<std::int32_t>(), block);
    });
  });
}

TRIREME_CUDA_PROVIDES(ops, cross_entropy_block_max, cross_entropy_block_sums,
                      cross_entropy_block_finish);

}  // namespace trireme::ops::cuda
