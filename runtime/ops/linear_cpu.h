// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops::cpu {

void linear_forward(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& w,
                    const Tensor& bias, const Tensor& residual);
void linear_backward_input(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w,
                           bool accumulate);
void linear_backward_weight(Stream& stream, const Tensor& dw, const Tensor& db, const Tensor& dy,
                            const Tensor& x);

}  // namespace trireme::ops::cpu
