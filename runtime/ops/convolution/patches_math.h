// SPDX-License-Identifier: Apache-2.0
// Private: which row of a sample edge_rows_forward and backward mean.
#pragma once

#include "runtime/base/host_device.h"
#include "runtime/ops/convolution/patches.h"

namespace trireme::ops {

struct EdgeRows {
  std::int64_t rows;  // of a sample
  bool last;
  const std::int32_t* starts;  // may be null

  EdgeRows(std::int64_t count, EdgeRow edge, const Tensor& document_starts)
      : rows(count),
        last(edge == EdgeRow::last),
        starts(document_starts.empty() ? nullptr : document_starts.as<std::int32_t>()) {}

  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t of(std::int64_t sample) const {
    if (!last) return 0;
    if (starts == nullptr) return rows - 1;
    std::int64_t low = 1, end = rows;  // the first row of another document is in [low, end]
    while (low < end) {
      const std::int64_t middle = low + (end - low) / 2;
      if (starts[sample * rows + middle] > 0) {
        end = middle;
      } else {
        low = middle + 1;
      }
    }
    return end - 1;
  }
};

}  // namespace trireme::ops
