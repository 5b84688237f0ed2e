// SPDX-License-Identifier: Apache-2.0
// Shape: up to six extents, row-major, held by value. Tensor: a non-owning, contiguous view.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "runtime/base/dtype.h"
#include "runtime/base/error.h"

namespace trireme {

class Shape {
 public:
  static constexpr std::size_t max_rank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents)
      : Shape(std::span(extents.begin(), extents.end())) {}
  explicit Shape(std::span<const std::int64_t> extents);

  [[nodiscard]] std::size_t rank() const { return rank_; }
  [[nodiscard]] std::int64_t operator[](std::size_t axis) const { return extents_[axis]; }
  [[nodiscard]] std::int64_t back() const { return extents_[rank_ - 1]; }
  // Product of the extents; 1 for a scalar shape. Overflow is an error.
  [[nodiscard]] std::int64_t count() const { return count_; }
  // Product of all extents but the last: the row count of a matrix view.
  [[nodiscard]] std::int64_t rows() const {
    return rank_ == 0 ? 1 : (back() == 0 ? 0 : count_ / back());
  }
  [[nodiscard]] std::span<const std::int64_t> extents() const { return {extents_.data(), rank_}; }
  [[nodiscard]] std::string to_string() const;  // "(4, 256, 768)"
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, max_rank> extents_{};
  std::size_t rank_ = 0;
  std::int64_t count_ = 1;
};

// A contiguous row-major view without ownership. A default-constructed Tensor means "absent".
struct Tensor {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  Shape shape{};

  [[nodiscard]] bool empty() const { return data == nullptr; }
  [[nodiscard]] std::int64_t count() const { return shape.count(); }
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(shape.count()) * size_of(dtype);
  }

  // Typed pointer; the dtype must match.
  template <typename T>
  [[nodiscard]] T* as() const {
    TRIREME_EXPECTS(dtype == dtype_of<T>, "tensor {} holds {}, asked for {}", shape.to_string(),
                    name_of(dtype), name_of(dtype_of<T>));
    return reinterpret_cast<T*>(data);
  }

  // The same elements under another shape of equal count.
  [[nodiscard]] Tensor reshaped(const Shape& other) const;
  // Elements [first, first + count) as a 1-D view.
  [[nodiscard]] Tensor range(std::int64_t first, std::int64_t count) const;
};

}  // namespace trireme
