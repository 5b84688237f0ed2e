// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ops/batch_norm.h"

namespace trireme::ops::cpu {

void batch_norm_forward(Stream& stream, const Tensor& y, const Tensor& mean, const Tensor& variance,
                        const Tensor& x, const Tensor& gamma, const Tensor& beta,
                        const BatchNormOptions& options);
void batch_norm_inference(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& gamma,
                          const Tensor& beta, const Tensor& mean, const Tensor& variance,
                          const BatchNormOptions& options);
void batch_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x, const Tensor& y,
                         const Tensor& gamma, const Tensor& mean, const Tensor& variance,
                         const BatchNormOptions& options);
void batch_norm_collect(Stream& stream, const Tensor& mean_sum, const Tensor& variance_sum,
                        const Tensor& mean, const Tensor& variance, std::int64_t n, float weight);

}  // namespace trireme::ops::cpu
