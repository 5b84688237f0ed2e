// SPDX-License-Identifier: Apache-2.0
// Private: the position in its text of a row of (B, T, ...).
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/base/host_device.h"
#include "runtime/base/shape.h"
#include "runtime/ops/common/row_runs.h"

namespace trireme::ops {

// Row t of a sample is at its position of the runs, or with spans (B, 2) i32 at spans[b][0] + t;
// padding after the last of `count` positions is at the last one.
struct RowPositions {
  const std::int32_t* spans;   // may be null
  const std::int32_t* starts;  // document starts, (B, T), from which positions count; may be null
  std::int64_t length;
  std::int64_t count;
  RowRuns runs;

  RowPositions(const Tensor& spans_of, std::int64_t rows, std::int64_t positions,
               const Tensor& starts_of = {}, const RowRuns& runs_of = {})
      : spans(spans_of.empty() ? nullptr : spans_of.as<std::int32_t>()),
        starts(starts_of.empty() ? nullptr : starts_of.as<std::int32_t>()),
        length(rows),
        count(positions),
        runs(runs_of) {}

  [[nodiscard]] TRIREME_HOST_DEVICE std::int64_t operator()(std::int64_t row) const {
    const auto t = static_cast<unsigned>(row) % static_cast<unsigned>(length);
    if (starts != nullptr) return runs.position(t) - starts[row];
    if (spans == nullptr) return runs.position(t);
    const auto b = static_cast<unsigned>(row) / static_cast<unsigned>(length);
    const std::int64_t position = spans[2 * b] + std::int64_t{t};
    return position < count ? position : count - 1;
  }
};

}  // namespace trireme::ops
