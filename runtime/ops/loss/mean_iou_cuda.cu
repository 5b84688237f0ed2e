// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/launch.h"
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/loss/mean_iou.h"
#include "runtime/ops/loss/mean_iou_math.h"

namespace trireme::ops::cuda {
namespace {

constexpr int mean_iou_threads = 1024;

// A block for each sample. Counts are integers: the order of the atomics does not matter.
template <typename T>
__global__ void __launch_bounds__(mean_iou_threads)
    mean_iou_kernel(float* overlaps, const T* logits, const std::int32_t* targets,
                    std::int64_t rows, std::int64_t stride, std::int64_t classes) {
  auto* const pixels = trireme::cuda::dynamic_shared<ClassPixels>();
  for (std::int64_t c = threadIdx.x; c < classes; c += blockDim.x)
    pixels[c] = {};
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < rows; i += blockDim.x) {
    const std::int64_t row = blockIdx.x * rows + i, target = targets[row];
    if (target < 0 || target >= classes) continue;
    const std::int64_t best = first_largest(logits + row * stride, classes);
    atomicAdd(&pixels[target].actual, 1U);
    atomicAdd(&pixels[best].predicted, 1U);
    if (best == target) atomicAdd(&pixels[best].both, 1U);
  }
  __syncthreads();
  if (threadIdx.x == 0) store_overlaps(overlaps + blockIdx.x, gridDim.x, pixels, classes);
}

}  // namespace

void mean_iou(Stream& stream, const Tensor& overlaps, const Tensor& logits, const Tensor& targets,
              std::int64_t classes) {
  visit_compute_dtype(logits.dtype, [&](auto type) {
    using T = decltype(type);
    trireme::cuda::launch(stream,
                          {.blocks = overlaps.shape[1],
                           .threads = mean_iou_threads,
                           .shared_bytes = static_cast<std::size_t>(classes) * sizeof(ClassPixels)},
                          mean_iou_kernel<T>, overlaps.as<float>(), logits.as<T>(),
                          targets.as<std::int32_t>(), logits.shape[0] / overlaps.shape[1],
                          logits.shape[1], classes);
  });
}

TRIREME_CUDA_PROVIDES(ops, mean_iou);

}  // namespace trireme::ops::cuda
