// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convolution/patches_math.h"

#include <cstring>

#include "runtime/device/cpu/cpu_stream.h"

namespace trireme::ops::cpu {

// In bytes: a row of a patch is contiguous in its image row.
void cut_patches(Stream& stream, const Tensor& y, const Tensor& images, std::int64_t size,
                 std::int64_t before) {
  const Shape& x = images.shape;
  const auto run = static_cast<std::size_t>(size * x[3]) * size_of(y.dtype);
  const std::int64_t down = x[1] / size, across = x[2] / size;
  const auto head = static_cast<std::size_t>(before * size) * run;
  enqueue(stream, [to = y.data, from = images.data, batch = x[0], size, down, across, run, head] {
    std::byte* at = to;
    for (std::int64_t n = 0; n < batch; ++n) {
      std::memset(at, 0, head);
      at += head;
      for (std::int64_t patch = 0; patch < down * across; ++patch) {
        for (std::int64_t row = 0; row < size; ++row, at += run) {
          const std::int64_t line = (n * down + patch / across) * size + row;
          std::memcpy(at, from + static_cast<std::size_t>(line * across + patch % across) * run,
                      run);
        }
      }
    }
  });
}

void edge_rows_forward(Stream& stream, const Tensor& y, const Tensor& x, EdgeRow edge,
                       const Tensor& document_starts) {
  const auto row = static_cast<std::size_t>(x.shape[2]) * size_of(x.dtype);
  enqueue(stream, [to = y.data, from = x.data, batch = x.shape[0], row,
                   rows = EdgeRows(x.shape[1], edge, document_starts)] {
    for (std::int64_t n = 0; n < batch; ++n)
      std::memcpy(to + static_cast<std::size_t>(n) * row,
                  from + static_cast<std::size_t>(n * rows.rows + rows.of(n)) * row, row);
  });
}

void edge_rows_backward(Stream& stream, const Tensor& dx, const Tensor& dy, EdgeRow edge,
                        const Tensor& document_starts) {
  const auto row = static_cast<std::size_t>(dx.shape[2]) * size_of(dx.dtype);
  enqueue(stream, [to = dx.data, from = dy.data, batch = dx.shape[0], row, bytes = dx.bytes(),
                   rows = EdgeRows(dx.shape[1], edge, document_starts)] {
    std::memset(to, 0, bytes);
    for (std::int64_t n = 0; n < batch; ++n)
      std::memcpy(to + static_cast<std::size_t>(n * rows.rows + rows.of(n)) * row,
                  from + static_cast<std::size_t>(n) * row, row);
  });
}

}  // namespace trireme::ops::cpu
