// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/launch_cuda.h"
#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/loss/mean_iou.h"
#include "runtime/ops/loss/mean_iou_math.h"

namespace trireme::ops::cuda {
namespace {

constexpr int mean_iou_threads = 1024;

// A block for each sample. Counts are integers: the order of the atomics does not matter.
template <typename T>
__global__ void __launch_bounds__(mean_iou_threads)
    mean_iou_kernel(float* scores, const float* losses, const float* correct, const T* logits,
                    const std::int32_t* targets, std::int64_t rows, std::int64_t stride,
                    MeanIouOptions options) {
  const std::int64_t classes = options.classes;
  double loss = 0, right = 0;
  auto* const pixels = dynamic_shared<ClassPixels>();
  for (std::int64_t c = threadIdx.x; c < classes; c += blockDim.x)
    pixels[c] = {};
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < rows; i += blockDim.x) {
    const std::int64_t row = blockIdx.x * rows + i, target = targets[row];
    loss += static_cast<double>(losses[row]);
    right += static_cast<double>(correct[row]);
    if (target < 0 || target >= classes) continue;
    const std::int64_t best = first_largest(logits + row * stride, classes);
    atomicAdd(&pixels[target].actual, 1U);
    atomicAdd(&pixels[best].predicted, 1U);
    if (best == target) atomicAdd(&pixels[best].both, 1U);
  }
  loss = block_reduce<mean_iou_threads>(loss, 0.0, Sum{});  // after which all counts are there
  right = block_reduce<mean_iou_threads>(right, 0.0, Sum{});
  if (threadIdx.x == 0) store_scores(scores + blockIdx.x, gridDim.x, pixels, loss, right, options);
}

}  // namespace

void mean_iou(Stream& stream, const Tensor& scores, const Tensor& losses, const Tensor& correct,
              const Tensor& logits, const Tensor& targets, const MeanIouOptions& options) {
  visit_compute_dtype(logits.dtype, [&]<typename T>(T) {
    launch(stream,
           {.blocks = scores.shape[1],
            .threads = mean_iou_threads,
            .shared_bytes = static_cast<std::size_t>(options.classes) * sizeof(ClassPixels)},
           mean_iou_kernel<T>, scores.as<float>(), losses.as<float>(), correct.as<float>(),
           logits.as<T>(), targets.as<std::int32_t>(), logits.shape[0] / scores.shape[1],
           logits.shape[1], options);
  });
}

TRIREME_CUDA_PROVIDES(ops, mean_iou);

}  // namespace trireme::ops::cuda
