// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/launch.h"
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/update/noise_scale_math.h"

namespace trireme::ops::cuda {
namespace {

__global__ void estimate_noise_kernel(double* state, const double* squares,
                                      NoiseOperands operands) {
  add_measurement(state, squares, operands);
}

}  // namespace

void estimate_noise(Stream& stream, const Tensor& state, const Tensor& squares,
                    const NoiseOptions& options) {
  trireme::cuda::launch(stream, {.blocks = 1, .threads = 1}, estimate_noise_kernel,
                        state.as<double>(), squares.as<double>(), NoiseOperands(options));
}

TRIREME_CUDA_PROVIDES(ops, estimate_noise);

}  // namespace trireme::ops::cuda
