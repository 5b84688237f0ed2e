// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/nn/model.h"

namespace trireme {

// Which places the targets of a micro-batch have among the classes (ops/loss/target_rank.h), from
// the logits that a forward pass outside training leaves. Whole numbers: no layout has others.
class TargetRanks {
 public:
  // `model` holds the head and must outlive this.
  TargetRanks(Device& device, const Model& model);

  // (targets of the micro-batch) f32, on every tensor rank; until the next call. Collective over
  // these.
  [[nodiscard]] Tensor of(const Context& context) const;

 private:
  const HeadInfo& head_;
  Buffer values_, ranks_;
};

}  // namespace trireme
