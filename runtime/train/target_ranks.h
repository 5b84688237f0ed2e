// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/nn/model.h"

namespace trireme {

// Ranks of a micro-batch's targets among the classes (ops/loss/target_rank.h), from the logits of a
// forward pass outside training. Integers, equal in every layout.
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
