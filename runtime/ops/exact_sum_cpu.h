// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops::cpu {

void accumulate_squares_exact(Stream& stream, const Tensor& state, const Tensor& x);
void exact_sum_value(Stream& stream, const Tensor& total, const Tensor& state);

}  // namespace trireme::ops::cpu
