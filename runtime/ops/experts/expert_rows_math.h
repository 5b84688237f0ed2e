// SPDX-License-Identifier: Apache-2.0
// Private: shared by the CPU and CUDA kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/ops/common/float_types.h"
#include "runtime/ops/experts/expert_rows.h"

namespace trireme::ops {

// The rows that a source sends to one of the owner's experts; counts(S, parts, all).
TRIREME_HOST_DEVICE inline std::int32_t rows_of_group(const std::int32_t* counts,
                                                      std::int64_t parts, std::int64_t all,
                                                      std::int64_t source, std::int64_t expert,
                                                      const ReceivedRows& rows) {
  const std::int64_t before = source % rows.tensor_ranks * parts;  // parts of the micro-batch
  std::int32_t sum = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    if (before + part < rows.from || before + part >= rows.to) continue;
    sum += counts[(source * parts + part) * all + rows.first + expert];
  }
  return sum;
}

}  // namespace trireme::ops
