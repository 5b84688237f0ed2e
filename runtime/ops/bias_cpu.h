// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops::cpu {

void add_bias_residual(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& bias,
                       const Tensor& residual);
void column_sums(Stream& stream, const Tensor& db, const Tensor& dy);

}  // namespace trireme::ops::cpu
