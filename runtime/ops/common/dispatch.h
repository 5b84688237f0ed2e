// SPDX-License-Identifier: Apache-2.0
// The one place where an op chooses its back end. `op.cpp` names its kernels,
//   TRIREME_KERNEL(layer_norm_forward);
// checks its operands, then
//   TRIREME_DISPATCH(stream, layer_norm_forward, reads(x, gamma, beta).writes(y, mean, rstd),
//                    y, mean, rstd, x, gamma, beta, epsilon)
// declares what a GPU's kernels read and write of them (traffic.h) and calls
// cpu::layer_norm_forward(stream, y, mean, ...), or the one that the CUDA back end provides
// (cuda_slot.h), both of the public function's own type. A program that is linked without that back
// end refuses by name. Where somebody counts (device/work_log.h), the call is noted.
#pragma once

#include "runtime/base/error.h"
#include "runtime/device/cuda_slot.h"
#include "runtime/device/device.h"
#include "runtime/ops/common/traffic.h"

#define TRIREME_KERNEL(function)    \
  namespace cpu {                   \
  decltype(ops::function) function; \
  }                                 \
  static_assert(true, "a kernel is declared by a statement")

#define TRIREME_DISPATCH(stream, function, passes, ...) \
  TRIREME_DISPATCH_AS(#function, stream, function, passes, __VA_ARGS__)

// Noted as `name`.
#define TRIREME_DISPATCH_AS(name, stream, function, passes, ...)                                  \
  do {                                                                                            \
    const OperationScope operation_scope((name), [&] { return (passes).total(); });               \
    if ((stream).device().execution() == Execution::none) {                                       \
      TRIREME_EXPECTS(WorkLog::current() != nullptr, "nothing runs on a dry device: " #function); \
    } else if ((stream).device().type() == DeviceType::cpu) {                                     \
      cpu::function((stream), __VA_ARGS__);                                                       \
    } else if (cuda_slot<&ops::function> != nullptr) {                                            \
      cuda_slot<&ops::function>((stream), __VA_ARGS__);                                           \
    } else {                                                                                      \
      fail(ExitCode::config, #function " is part of the cuda backend, which this build lacks");   \
    }                                                                                             \
  } while (false)
