// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops::cpu {

void sum_blocks(Stream& stream, const Tensor& y, const Tensor& x);

}  // namespace trireme::ops::cpu
