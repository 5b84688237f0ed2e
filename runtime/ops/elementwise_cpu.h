// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops::cpu {

void add_in_place(Stream& stream, const Tensor& y, const Tensor& x);
void relu_forward(Stream& stream, const Tensor& y, const Tensor& a, const Tensor& b);
void relu_backward(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& y);
void cast(Stream& stream, const Tensor& y, const Tensor& x);
void accumulate_sum(Stream& stream, const Tensor& total, const Tensor& x);

}  // namespace trireme::ops::cpu
