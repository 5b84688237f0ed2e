// SPDX-License-Identifier: Apache-2.0
// A number for each spatial axis of a channels-last tensor: (H, W) of images (N, H, W, C), (D, H,
// W) of volumes (N, D, H, W, C).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace trireme::ops {

class PerAxis {
 public:
  // The same number for every axis.
  constexpr PerAxis(std::int64_t all) : values_{all, all, all}, count_(1) {}  // NOLINT: implicit
  constexpr PerAxis(std::int64_t height, std::int64_t width)
      : values_{1, height, width}, count_(2) {}
  constexpr PerAxis(std::int64_t depth, std::int64_t height, std::int64_t width)
      : values_{depth, height, width}, count_(3) {}

  // Axis 0 is the depth, 1 the height, 2 the width.
  [[nodiscard]] constexpr std::int64_t operator[](std::size_t axis) const { return values_[axis]; }
  // Whether it has a number for each of `axes` spatial axes.
  [[nodiscard]] constexpr bool fits(std::size_t axes) const {
    return count_ == 1 || count_ == axes;
  }
  [[nodiscard]] std::string to_string() const;  // "3", "(3, 5)" or "(1, 3, 3)"

 private:
  std::array<std::int64_t, 3> values_;
  std::size_t count_;
};

}  // namespace trireme::ops
