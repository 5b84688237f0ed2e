// SPDX-License-Identifier: Apache-2.0
// Loads and stores compute dtypes as float, with a single switch over them. Private to this module.
#pragma once

#include "runtime/base/dtype.h"
#include "runtime/base/error.h"
#include "runtime/base/float8.h"

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
TRIREME_HOST_DEVICE inline float load(f8e4m3 value) {
  return static_cast<float>(value);
}
TRIREME_HOST_DEVICE inline float load(f8e5m2 value) {
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

TRIREME_HOST_DEVICE inline void store(f8e4m3& to, float value) {
  to = f8e4m3(value);
}
TRIREME_HOST_DEVICE inline void store(f8e5m2& to, float value) {
  to = f8e5m2(value);
}

[[nodiscard]] constexpr bool is_compute_dtype(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

// Calls action(float{}), action(bf16{}) or action(f16{}); the argument only carries the type.
template <typename Action>
decltype(auto) visit_compute_dtype(DType dtype, Action&& action) {
  TRIREME_EXPECTS(is_compute_dtype(dtype), "{} is not a compute dtype", name_of(dtype));
  if (dtype == DType::f16) return action(f16{});
  return dtype == DType::bf16 ? action(bf16{}) : action(float{});
}

// Calls action(f8e4m3{}) or action(f8e5m2{}).
template <typename Action>
decltype(auto) visit_float8(DType dtype, Action&& action) {
  TRIREME_EXPECTS(dtype == DType::f8e4m3 || dtype == DType::f8e5m2, "{} is not an 8-bit float",
                  name_of(dtype));
  return dtype == DType::f8e5m2 ? action(f8e5m2{}) : action(f8e4m3{});
}

}  // namespace trireme::ops
