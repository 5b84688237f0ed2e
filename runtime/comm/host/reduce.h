// SPDX-License-Identifier: Apache-2.0
// Private to this room: the host arithmetic of reductions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/dtype.h"
#include "runtime/comm/communicator.h"

namespace trireme {

// out[i] = inputs[0][i] op ... op inputs[n-1][i], combined as a balanced binary tree over the input
// index: the left half holds the largest power of two below n inputs. bf16 and f16 are combined in
// fp32 and rounded once; integers wrap around; max and min of a NaN are NaN. `out` may be one of
// the inputs.
void reduce_tree(DType dtype, ReduceOp op, std::span<const std::byte* const> inputs, std::byte* out,
                 std::int64_t count);

}  // namespace trireme
