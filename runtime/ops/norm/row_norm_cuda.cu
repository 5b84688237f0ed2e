// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/norm/row_norm.h"

#include "runtime/device/cuda_slot.h"
#include "runtime/ops/norm/norm_cuda.h"

namespace trireme::ops::cuda {

void layer_norm_forward(Stream& stream, const Tensor& y, const Tensor& mean, const Tensor& rstd,
                        const Tensor& x, const Tensor& gamma, const Tensor& beta, float epsilon,
                        const Tensor& amax) {
  if (x.count() == 0) return;
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
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
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
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

TRIREME_CUDA_PROVIDES(ops, layer_norm_forward, layer_norm_backward);

void rms_norm_forward(Stream& stream, const Tensor& y, const Tensor& rstd, const Tensor& x,
                      const Tensor& gamma, float epsilon, const Tensor& amax, float offset) {
  if (x.count() == 0) return;
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    norm_forward<false, T>(stream, {.y = y.as<T>(),
                                    .sum = nullptr,
                                    .mean = nullptr,
                                    .rstd = rstd.as<float>(),
                                    .x = x.as<T>(),
                                    .residual = nullptr,
                                    .gamma = gamma.as<float>(),
                                    .beta = nullptr,
                                    .rows = x.count() / x.shape.back(),
                                    .columns = x.shape.back(),
                                    .epsilon = epsilon,
                                    .offset = offset,
                                    .magnitude = largest_magnitude_in(stream, amax)});
  });
}

void rms_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma, const Tensor& dy,
                       const Tensor& x, const Tensor& gamma, const Tensor& rstd, bool accumulate,
                       const Tensor& amax, float offset) {
  if (x.count() == 0) return;
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    norm_backward<false, T>(stream,
                            {.dx = dx.empty() ? nullptr : dx.as<T>(),
                             .channels = {{dgamma.empty() ? nullptr : dgamma.as<float>(), nullptr}},
                             .dy = dy.as<T>(),
                             .x = x.as<T>(),
                             .gamma = gamma.as<float>(),
                             .mean = nullptr,
                             .rstd = rstd.as<float>(),
                             .rows = x.count() / x.shape.back(),
                             .columns = x.shape.back(),
                             .accumulate = accumulate,
                             .offset = offset,
                             .magnitude = largest_magnitude_in(stream, amax)});
  });
}

TRIREME_CUDA_PROVIDES(ops, rms_norm_forward, rms_norm_backward);

}  // namespace trireme::ops::cuda
