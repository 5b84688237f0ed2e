// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops::cpu {

void gelu_forward(Stream& stream, const Tensor& y, const Tensor& x);
void gelu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& x);

}  // namespace trireme::ops::cpu
