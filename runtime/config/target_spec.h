// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/base/shape.h"

namespace trireme {

// What a model predicts for each sample, and so what Batch::targets holds.
enum class TargetKind : std::uint8_t { tokens, label, pixels, values, token_classes };

struct TargetSpec {
  TargetKind kind = TargetKind::tokens;  // values: f32; else i32 classes
  Shape shape{};  // of one sample: (T), (), (H, W) or (D, H, W), (K) or maps (H, W, K), ...
  std::int64_t classes = 0;  // 0 for values, of multi-hot labels (K) their number

  // Values that are 1 where a label holds, else 0.
  [[nodiscard]] bool is_multi_label() const { return kind == TargetKind::values && classes > 0; }

  // K values for each pixel or voxel.
  [[nodiscard]] bool is_value_map() const { return kind == TargetKind::values && shape.rank() > 1; }
};

}  // namespace trireme
