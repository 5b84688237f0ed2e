// SPDX-License-Identifier: Apache-2.0
// Copies boxes of tensors in memory of other extents: parts of samples in slabs.
#pragma once

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "runtime/device/device.h"

namespace trireme::ops {

// counts[0] * counts[1] * counts[2] runs of counts[3] contiguous elements. All numbers in elements.
struct BoxCopy {
  std::int64_t to = 0, from = 0;  // the first element
  std::array<std::int64_t, 4> counts{1, 1, 1, 1};
  std::array<std::int64_t, 3> to_strides{}, from_strides{};

  [[nodiscard]] constexpr std::int64_t count() const {
    return counts[0] * counts[1] * counts[2] * counts[3];
  }
};

// The copies back.
[[nodiscard]] inline std::vector<BoxCopy> reversed(std::vector<BoxCopy> boxes) {
  for (BoxCopy& box : boxes) {
    std::swap(box.to, box.from);
    std::swap(box.to_strides, box.from_strides);
  }
  return boxes;
}

// Copies boxes of `from` to boxes of `to` that do not overlap. Any dtype, the same for both. The
// list must stay alive until the work is done.
void copy_boxes(Stream& stream, const Tensor& to, const Tensor& from,
                std::span<const BoxCopy> boxes);

}  // namespace trireme::ops
