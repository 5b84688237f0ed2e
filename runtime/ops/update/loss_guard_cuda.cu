// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/launch.h"
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/update/loss_guard.h"
#include "runtime/ops/update/loss_guard_math.h"
#include "runtime/ops/update/noise_scale_math.h"
#include "runtime/ops/update/optimizer_update.h"

namespace trireme::ops::cuda {
namespace {

__global__ void guard_loss_kernel(float* scalars, double* state, const double* sums,
                                  std::int64_t micro_batches, LossGuardOptions options) {
  if (!guard_step(state, sums, micro_batches, options)) scalars[StepScalars::gradient_scale] = 0.0F;
}

}  // namespace

void guard_loss(Stream& stream, const Tensor& scalars, const Tensor& state, const Tensor& sums,
                const LossGuardOptions& options) {
  trireme::cuda::launch(stream, {.blocks = 1, .threads = 1}, guard_loss_kernel, scalars.as<float>(),
                        state.as<double>(), sums.as<double>(), sums.count() / LossSums::count,
                        options);
}

TRIREME_CUDA_PROVIDES(ops, guard_loss);

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
