// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/launch.h"
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/loss/value_loss_math.h"

namespace trireme::ops::cuda {
namespace {

constexpr int value_loss_threads = 256;

template <typename T>
__global__ void value_loss_kernel(ValueLosses<T> work, std::int64_t count) {
  const float scale = work.scale();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    work.run(i, scale);
  }
}

}  // namespace

void value_loss(Stream& stream, const Tensor& losses, const Tensor& errors,
                const Tensor& predictions, const Tensor& targets, const ValueLossOptions& options) {
  visit_compute_dtype(predictions.dtype, [&]<typename T>(T) {
    trireme::cuda::launch(stream,
                          trireme::cuda::grid_for(stream, predictions.count(), value_loss_threads,
                                                  value_loss_threads),
                          value_loss_kernel<T>,
                          value_losses<T>(losses, errors, predictions, targets, options),
                          predictions.count());
  });
}

TRIREME_CUDA_PROVIDES(ops, value_loss);

}  // namespace trireme::ops::cuda
