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
TRIREME_HOST_DEVICE inline float load(f16 value) {
  return static_cast<float>(value);
}
TRIREME_HOST_DEVICE inline void store(float& to, float value) {
  to = value;
}
TRIREME_HOST_DEVICE inline void store(bf16& to, float value) {
  to = bf16(value);
}
TRIREME_HOST_DEVICE inline void store(f16& to, float value) {
  to = f16(value);
}

[[nodiscard]] constexpr bool is_compute_dtype(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

// Calls action(float{}), action(bf16{}) or action(f16{}): the argument only carries the element
// type.
template <typename Action>
decltype(auto) visit_compute_dtype(DType dtype, Action&& action) {
  TRIREME_EXPECTS(is_compute_dtype(dtype), "{} is not a compute dtype", name_of(dtype));
  if (dtype == DType::f16) return action(f16{});
  return dtype == DType::bf16 ? action(bf16{}) : action(float{});
}

}  // namespace trireme::ops
