// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/copy_boxes.h"

#include <cstring>

#include "runtime/device/cpu/cpu_stream.h"

namespace trireme::ops::cpu {

void copy_boxes(Stream& stream, const Tensor& to, const Tensor& from,
                std::span<const BoxCopy> boxes) {
  const auto size = static_cast<std::int64_t>(size_of(to.dtype));
  enqueue(stream, [to = to.data, from = from.data, boxes, size] {
    for (const BoxCopy& box : boxes) {
      const auto bytes = static_cast<std::size_t>(box.counts[3] * size);
      for (std::int64_t i = 0; i < box.counts[0]; ++i) {
        for (std::int64_t j = 0; j < box.counts[1]; ++j) {
          std::byte* target = to + (box.to + i * box.to_strides[0] + j * box.to_strides[1]) * size;
          const std::byte* source =
              from + (box.from + i * box.from_strides[0] + j * box.from_strides[1]) * size;
          for (std::int64_t k = 0; k < box.counts[2]; ++k) {
            std::memcpy(target, source, bytes);
            target += box.to_strides[2] * size;
            source += box.from_strides[2] * size;
          }
        }
      }
    }
  });
}

}  // namespace trireme::ops::cpu
