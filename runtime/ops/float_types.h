// SPDX-License-Identifier: Apache-2.0
// Loads and stores of the compute dtypes as float, and the one switch over them. Private to this
// room.
#pragma once

#include "runtime/base/dtype.h"
#include "runtime/base/error.h"

namespace trireme::ops {

TRIREME_HOST_DEVICE inline float load(float value) {
  return value;
}
TRIREME_HOST_DEVICE inline float load(bf16 value) {
  return static_cast<float>(value);
}
TRIREME_HOST_DEVICE inline void store(float& to, float value) {
  to = value;
}
TRIREME_HOST_DEVICE inline void store(bf16& to, float value) {
  to = bf16(value);
}

// Calls action(float{}) or action(bf16{}): the argument only carries the element type.
template <typename Action>
decltype(auto) visit_compute_dtype(DType dtype, Action&& action) {
  TRIREME_EXPECTS(dtype == DType::f32 || dtype == DType::bf16, "{} is not a compute dtype",
                  name_of(dtype));
  return dtype == DType::bf16 ? action(bf16{}) : action(float{});
}

}  // namespace trireme::ops
