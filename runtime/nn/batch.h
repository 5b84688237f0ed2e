// SPDX-License-Identifier: Apache-2.0
// One micro-batch on the device: what the data room delivers and every model reads. Views only;
// whoever returned the batch says how long they stay valid.
#pragma once

#include "runtime/base/shape.h"

namespace trireme {

// Adds nothing to the loss, its count or the gradient: the loss is the mean over the other targets
// of the global batch.
inline constexpr std::int32_t ignored_target = -1;

struct Batch {
  Tensor inputs;      // tokens (B, T) i32, or images (B, H, W, C) u8 or f32
  Tensor targets;     // next tokens (B, T) i32, or labels (B) i32; ignored_target = no target
  Tensor sample_ids;  // (B) i64: index in the data set; -1 for a padding row
  Tensor epochs;  // (B) i64: the epoch each row belongs to; with sample_ids the key of its random
                  // numbers
  Tensor weights{};  // (B) f32: each multiplies the loss of its row; absent: 1
  // Tokens (B, T) i32: where the document of each begins in its row, 0 where it began before;
  // documents are apart then. Absent: a row is one text.
  Tensor document_starts{};
};

}  // namespace trireme
