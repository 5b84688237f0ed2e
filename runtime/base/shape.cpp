// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/shape.h"

#include <algorithm>

#include <fmt/ranges.h>

namespace trireme {

std::string_view name_of(DType type) {
  switch (type) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::u8:
      return "u8";
    case DType::u16:
      return "u16";
    case DType::u32:
      return "u32";
    case DType::u64:
      return "u64";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::f8e4m3:
      return "f8e4m3";
    case DType::f8e5m2:
      return "f8e5m2";
  }
  return "unknown";
}

Shape::Shape(std::span<const std::int64_t> extents) : rank_(extents.size()) {
  TRIREME_EXPECTS(extents.size() <= max_rank, "a shape has at most {} axes, not {}", max_rank,
                  extents.size());
  std::copy(extents.begin(), extents.end(), extents_.begin());
  for (const std::int64_t extent : extents) {
    TRIREME_EXPECTS(extent >= 0 && !__builtin_mul_overflow(count_, extent, &count_),
                    "extents ({}) do not fit in 63 bits", fmt::join(extents, ", "));
  }
}

std::string Shape::to_string() const {
  return fmt::format("({})", fmt::join(extents(), ", "));
}

Tensor Tensor::reshaped(const Shape& other) const {
  TRIREME_EXPECTS(other.count() == shape.count(), "{} cannot be viewed as {}", shape.to_string(),
                  other.to_string());
  return {data, dtype, other};
}

Tensor Tensor::range(std::int64_t first, std::int64_t length) const {
  TRIREME_EXPECTS(first >= 0 && length >= 0 && first <= count() && length <= count() - first,
                  "a range of {} elements from {} lies outside {}", length, first,
                  shape.to_string());
  return {data + static_cast<std::size_t>(first) * size_of(dtype), dtype, Shape{length}};
}

}  // namespace trireme
