// SPDX-License-Identifier: Apache-2.0
// Memory is laid out before it is allocated. A Layout assigns offsets; an Arena is one Buffer of
// the layout's size. The planner sums the same Layouts without allocating.
#pragma once

#include <algorithm>
#include <cstddef>

#include "runtime/device/device.h"

namespace trireme {

inline constexpr std::size_t arena_alignment = 64;

[[nodiscard]] constexpr std::size_t align_up(std::size_t value, std::size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// Offsets by stack discipline: reserve() pushes, rewind() pops to an earlier mark(), peak_bytes()
// is what the arena must hold. Regions that are never rewound are disjoint.
class Layout {
 public:
  // Byte offset of a new region, aligned to arena_alignment.
  std::size_t reserve(std::size_t bytes) {
    const std::size_t offset = top_;
    top_ = align_up(top_ + bytes, arena_alignment);
    peak_ = std::max(peak_, top_);
    return offset;
  }
  [[nodiscard]] std::size_t mark() const { return top_; }
  void rewind(std::size_t mark) { top_ = mark; }
  [[nodiscard]] std::size_t peak_bytes() const { return peak_; }

 private:
  std::size_t top_ = 0;
  std::size_t peak_ = 0;
};

class Arena {
 public:
  Arena() = default;
  Arena(Device& device, const Layout& layout, MemoryKind kind = MemoryKind::device)
      : buffer_(device, layout.peak_bytes(), kind) {}

  [[nodiscard]] Tensor at(std::size_t offset, DType dtype, const Shape& shape) const {
    const Tensor tensor{buffer_.data() + offset, dtype, shape};
    TRIREME_EXPECTS(offset + tensor.bytes() <= buffer_.bytes(),
                    "tensor {} at offset {} overruns an arena of {} bytes", shape.to_string(),
                    offset, buffer_.bytes());
    return tensor;
  }
  [[nodiscard]] std::size_t bytes() const { return buffer_.bytes(); }
  [[nodiscard]] const Buffer& buffer() const { return buffer_; }

 private:
  Buffer buffer_;
};

}  // namespace trireme
