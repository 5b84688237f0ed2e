// SPDX-License-Identifier: Apache-2.0
// The one place where an op chooses its back end. `op.cpp` names its kernels,
//   TRIREME_KERNEL(layer_norm_forward);
// checks its operands, then
//   TRIREME_DISPATCH(stream, layer_norm_forward, y, mean, ...)
// calls cpu:: or cuda::layer_norm_forward(stream, y, mean, ...), both of the public function's own
// type. The CUDA ones are weak: a program that is linked without that back end refuses by name.
#pragma once

#include "runtime/base/error.h"
#include "runtime/device/device.h"

#define TRIREME_KERNEL(function)                  \
  namespace cpu {                                 \
  decltype(ops::function) function;               \
  }                                               \
  namespace cuda {                                \
  [[gnu::weak]] decltype(ops::function) function; \
  }                                               \
  static_assert(true, "a kernel is declared by a statement")

#define TRIREME_DISPATCH(stream, function, ...)                                                 \
  do {                                                                                          \
    if ((stream).device().type() == DeviceType::cpu) {                                          \
      cpu::function((stream), __VA_ARGS__);                                                     \
    } else if (cuda::function != nullptr) {                                                     \
      cuda::function((stream), __VA_ARGS__);                                                    \
    } else {                                                                                    \
      fail(ExitCode::config, #function " is part of the cuda backend, which this build lacks"); \
    }                                                                                           \
  } while (false)
