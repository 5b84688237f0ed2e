// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda_slot.h"
#include "runtime/ops/norm/layer_norm.h"

#include "runtime/ops/norm/norm_cuda.h"

namespace trireme::ops::cuda {

void layer_norm_forward(Stream& stream, const Tensor& y, const Tensor& mean, const Tensor& rstd,
                        const Tensor& x, const Tensor& gamma, const Tensor& beta, float epsilon,
                        const Tensor& amax) {
  if (x.count() == 0) return;
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    norm_forward<true, T>(stream, {.y = y.as<T>(),
                                   .sum = nullptr,
                                   .mean = mean.as<float>(),
                                   .rstd = rstd.as<float>(),
                                   .x = x.as<T>(),
                                   .residual = nullptr,
                                   .gamma = gamma.as<float>(),
                                   .beta = beta.as<float>(),
                                   .rows = x.count() / x.shape.back(),
                                   .columns = x.shape.back(),
                                   .epsilon = epsilon,
                                   .magnitude = largest_magnitude_in(stream, amax)});
  });
}

void layer_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x,
                         const Tensor& gamma, const Tensor& mean, const Tensor& rstd,
                         bool accumulate, const Tensor& amax) {
  if (x.count() == 0) return;
  visit_compute_dtype(x.dtype, [&](auto type) {
    using T = decltype(type);
    norm_backward<true, T>(stream, {.dx = dx.empty() ? nullptr : dx.as<T>(),
                                    .channels = {{dgamma.empty() ? nullptr : dgamma.as<float>(),
                                                  dbeta.empty() ? nullptr : dbeta.as<float>()}},
                                    .dy = dy.as<T>(),
                                    .x = x.as<T>(),
                                    .gamma = gamma.as<float>(),
                                    .mean = mean.as<float>(),
                                    .rstd = rstd.as<float>(),
                                    .rows = x.count() / x.shape.back(),
                                    .columns = x.shape.back(),
                                    .accumulate = accumulate,
                                    .magnitude = largest_magnitude_in(stream, amax)});
  });
}

TRIREME_CUDA_PROVIDES(ops, layer_norm_forward);
TRIREME_CUDA_PROVIDES(ops, layer_norm_backward);

}  // namespace trireme::ops::cuda
