// SPDX-License-Identifier: Apache-2.0
#include "models/heads/head_loss.h"

namespace trireme {
namespace {

ValueLossChoice loss_of(const HeadChoice& head) {
  ValueLossChoice loss = head.loss;
  if (head.kind == HeadKind::labels) loss.kind = ops::ValueLossKind::binary;
  return loss;
}

}  // namespace

HeadLoss::HeadLoss(Blueprint& blueprint, const HeadChoice& head, const ops::MixOptions& mix)
    : choice_(head), classes_(blueprint, mix) {
  if (head.has_values()) values_.emplace(blueprint, Shape{head.outputs}, loss_of(head));
}

HeadInfo HeadLoss::head(const Activation& logits) const {
  if (values_) return values_->head(logits);
  return {.targets = logits.shape[0],
          .classes = choice_.outputs,
          .logits = logits,
          .kind = choice_.of_tokens() ? TargetKind::token_classes : TargetKind::label};
}

void HeadLoss::forward(const Context& context, const Tensor& logits) const {
  if (values_) return values_->forward(context, logits);
  if (!choice_.of_tokens()) return classes_.forward(context, logits);
  Context rows = context;  // one prediction for each of (B, T)
  rows.batch.targets = context.batch.targets.reshaped({logits.shape[0]});
  rows.losses = context.losses.reshaped({logits.shape[0]});
  rows.correct = context.correct.reshaped({logits.shape[0]});
  classes_.forward(rows, logits);
}

}  // namespace trireme
