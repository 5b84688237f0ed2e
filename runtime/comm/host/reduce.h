// SPDX-License-Identifier: Apache-2.0
// Private to this module: the host arithmetic of reductions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/dtype.h"
#include "runtime/comm/communicator.h"

namespace trireme {

// out[i] = inputs[0][i] op ... op inputs[n-1][i], in the order of the tree of base/sum_tree.h over
// the input index, in which the first `doubled` inputs count as two leaves each. bf16 and f16 are
// combined in fp32 and rounded once; integers wrap around; max and min of a NaN are NaN. `out` may
// be one of the inputs.
void reduce_tree(DType dtype, ReduceOp op, std::span<const std::byte* const> inputs, std::byte* out,
                 std::int64_t count, std::size_t doubled = 0);

}  // namespace trireme
