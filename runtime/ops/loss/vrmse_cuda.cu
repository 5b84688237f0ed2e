// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/launch_cuda.h"
#include "runtime/ops/common/reduce_cuda.h"
#include "runtime/ops/loss/vrmse.h"
#include "runtime/ops/loss/vrmse_math.h"

namespace trireme::ops::cuda {
namespace {

constexpr int vrmse_threads = 512;

// A block for each sample.
template <typename T>
__global__ void __launch_bounds__(vrmse_threads)
    vrmse_kernel(float* errors, const T* predictions, const float* targets, std::int64_t values,
                 std::int64_t channels) {
  const auto sum = [](double value) { return block_reduce<vrmse_threads>(value, 0.0, Sum{}); };
  const std::int64_t begin = blockIdx.x * values, end = begin + values;
  const std::int64_t stride = vrmse_threads * channels;
  SampleErrors all;
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const std::int64_t first = begin + channel + threadIdx.x * channels;
    ChannelErrors of;
    for (std::int64_t i = first; i < end; i += stride)
      of.add(predictions[i], targets[i]);
    of = {sum(of.count), sum(of.targets), sum(of.squares)};
    double variations = 0;
    for (std::int64_t i = first; i < end; i += stride)
      variations += variation(targets[i], of.mean());
    all.add(of, sum(variations));
  }
  if (threadIdx.x == 0) errors[blockIdx.x] = all.result();
}

}  // namespace

void vrmse(Stream& stream, const Tensor& errors, const Tensor& predictions, const Tensor& targets,
           std::int64_t channels) {
  visit_compute_dtype(predictions.dtype, [&]<typename T>(T) {
    launch(stream, {.blocks = predictions.shape[0], .threads = vrmse_threads}, vrmse_kernel<T>,
           errors.as<float>(), predictions.as<T>(), targets.as<float>(), predictions.shape[1],
           channels);
  });
}

TRIREME_CUDA_PROVIDES(ops, vrmse);

}  // namespace trireme::ops::cuda
