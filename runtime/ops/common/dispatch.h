// SPDX-License-Identifier: Apache-2.0
// Chooses the back end of an op; nothing else does. `op.cpp` names its kernels,
//   TRIREME_KERNELS(layer_norm_forward, layer_norm_backward);
// checks its operands, then
//   TRIREME_DISPATCH(stream, layer_norm_forward, reads(x, gamma, beta).writes(y, mean, rstd),
//                    y, mean, rstd, x, gamma, beta, epsilon)
// declares what GPU kernels read and write of them (traffic.h) and calls
// cpu::layer_norm_forward(stream, y, mean, ...), or the function of the CUDA back end
// (cuda_slot.h); both have the public function's type. A program linked without that back end
// raises an error that names it. A WorkLog (device/work_log.h) records the call.
#pragma once

#include "runtime/base/error.h"
#include "runtime/device/cuda_slot.h"
#include "runtime/device/device.h"
#include "runtime/ops/common/traffic.h"

#define TRIREME_KERNELS(...)                          \
  namespace cpu {                                     \
  TRIREME_EACH(TRIREME_CPU_KERNEL_, ops, __VA_ARGS__) \
  }                                                   \
  static_assert(true, "kernels are declared by a statement")
#define TRIREME_CPU_KERNEL_(scope, function) decltype(scope::function) function;

#define TRIREME_DISPATCH(stream, function, passes, ...) \
  TRIREME_DISPATCH_AS(#function, stream, function, passes, __VA_ARGS__)

// Logged as `name`.
#define TRIREME_DISPATCH_AS(name, stream, function, passes, ...)                                  \
  do {                                                                                            \
    const OperationScope operation_scope((name), (stream), [&] { return (passes).total(); });     \
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
