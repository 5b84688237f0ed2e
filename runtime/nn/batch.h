// SPDX-License-Identifier: Apache-2.0
// One micro-batch on the device, from the data room to the models. Views only; the source of the
// batch defines how long they stay valid.
#pragma once

#include "runtime/base/shape.h"

namespace trireme {

// A target of this value adds nothing to the loss, the target count or the gradient. The loss is
// the mean over the other targets of the global batch.
inline constexpr std::int32_t ignored_target = -1;

struct Batch {
  Tensor inputs;      // tokens (B, T) i32, or images (B, H, W, C) u8 or f32
  Tensor targets;     // next tokens (B, T) i32, or labels (B) i32; ignored_target = no target
  Tensor sample_ids;  // (B) i64: index in the data set; -1 for a padding row
  Tensor epochs;  // (B) i64: the epoch each row belongs to; with sample_ids the key of its random
                  // numbers
  Tensor weights{};  // (B) f32: per-sample loss weights; absent: 1
  // (B, T) i32: for each token, where its document starts in the row; 0 if it started earlier.
  // Documents then do not attend to each other. Absent: a row is one document.
  Tensor document_starts{};
};

}  // namespace trireme
