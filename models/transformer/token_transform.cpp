// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/token_transform.h"

namespace trireme {

TokenTransform::TokenTransform(Blueprint& blueprint, const TransformerOptions& options)
    : Layer("transform", RowSplit(blueprint, options.context, options.hidden).local()),
      rows_(blueprint, options.context, options.hidden),
      split_backward_(blueprint.splits_backward()),
      activation_(options.activation),
      linear_(blueprint, "transform", options.hidden, options.hidden, options.matrix_init()),
      pre_(blueprint.keep(rows_.whole())),
      dpre_(blueprint.until_weight(rows_.whole())) {
  if (!rows_.split()) return;
  input_ = blueprint.keep(rows_.whole());
  activated_ = blueprint.scratch(rows_.whole());
  dactivated_ = blueprint.scratch(rows_.whole());
}

Tensor TokenTransform::gathered(const Context& context, const Activation& whole,
                                const Tensor& local) const {
  if (!rows_.split()) return local;
  const Tensor all = context(whole);
  context.stream.device().copy(context.stream, rows_.own(all).data, local.data, local.bytes());
  rows_.gather(context, all);
  return all;
}

void TokenTransform::keep_own(const Context& context, const Tensor& local,
                              const Tensor& whole) const {
  if (!rows_.split()) return;
  context.stream.device().copy(context.stream, local.data, rows_.own(whole).data, local.bytes());
}

void TokenTransform::forward(const Context& context, const Tensor& x, const Tensor& y) {
  const Tensor pre = context(pre_), activated = rows_.split() ? context(activated_) : y;
  linear_.forward(context, pre, gathered(context, input_, x));
  ops::activation_forward(context.stream, activated, pre, activation_);
  keep_own(context, y, activated);
}

void TokenTransform::backward(const Context& context, const Tensor& x, const Tensor& /*y*/,
                              const Tensor& dy, const Tensor& dx) {
  const Tensor dpre = context(dpre_);
  const Tensor dactivated = gathered(context, dactivated_, dy);
  ops::activation_backward(context.stream, dpre, dactivated, context(pre_), activation_);
  if (!split_backward_) backward_weight(context, x);
  const Tensor dinput = rows_.split() ? context(dactivated_) : dx;
  linear_.backward_input(context, dinput, dpre);
  keep_own(context, dx, dinput);
}

void TokenTransform::backward_weight(const Context& context, const Tensor& x) {
  linear_.backward_weight(context, context(dpre_), rows_.split() ? context(input_) : x);
}

}  // namespace trireme
