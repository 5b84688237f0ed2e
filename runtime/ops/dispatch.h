// SPDX-License-Identifier: Apache-2.0
// The one place where an op chooses its back end. `op.cpp` checks its operands, then
//   TRIREME_DISPATCH(stream, layer_norm_forward, y, mean, ...)
// calls cpu::layer_norm_forward(stream, y, mean, ...), declared in the op's private header part.
#pragma once

#include "runtime/base/error.h"
#include "runtime/device/device.h"

#define TRIREME_DISPATCH(stream, function, ...)                                                 \
  do {                                                                                          \
    if ((stream).device().type() != DeviceType::cpu) {                                          \
      fail(ExitCode::config, #function " is part of the cuda backend, which this build lacks"); \
    }                                                                                           \
    cpu::function((stream), __VA_ARGS__);                                                       \
  } while (false)
