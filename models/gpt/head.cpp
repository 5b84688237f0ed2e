// SPDX-License-Identifier: Apache-2.0
#include "models/gpt/head.h"

#include "models/gpt/embedding_layer.h"
#include "runtime/ops/cross_entropy.h"
#include "runtime/ops/linear.h"

namespace trireme {

GptHead::GptHead(Blueprint& blueprint, const GptOptions& options)
    : Layer("head", Shape{}),
      options_(options),
      rows_(blueprint.micro_batch() * options.context),
      norm_(blueprint, "final_norm", rows_, options.hidden),
      tokens_(blueprint.shared_parameter(token_table_spec(options))),
      normed_(blueprint.keep({blueprint.micro_batch(), options.context, options.hidden})),
      logits_(blueprint.keep({rows_, padded_vocabulary(options.vocabulary)})),
      dnormed_(blueprint.scratch(normed_.shape)) {}

HeadInfo GptHead::info() const {
  return {.targets = rows_, .classes = options_.vocabulary, .logits = logits_};
}

void GptHead::forward(const Context& context, const Tensor& x, const Tensor& /*y*/) {
  const Tensor normed = context(normed_), logits = context(logits_);
  norm_.forward(context, normed, x);
  ops::linear_forward(context.stream, logits, normed, context.params.compute(tokens_));
  ops::cross_entropy(context.stream, context.losses, context.hits, logits,
                     context.batch.targets.reshaped({rows_}),
                     {.classes = options_.vocabulary,
                      .label_smoothing = context.label_smoothing,
                      .gradient_scale = context.gradient_scale,
                      .write_gradient = context.training});
}

void GptHead::backward(const Context& context, const Tensor& x, const Tensor& /*y*/,
                       const Tensor& /*dy*/, const Tensor& dx) {
  const Tensor dlogits = context(logits_), dnormed = context(dnormed_);
  ops::linear_backward_weight(context.stream, context.params.gradient(tokens_), {}, dlogits,
                              context(normed_));
  ops::linear_backward_input(context.stream, dnormed, dlogits, context.params.compute(tokens_));
  norm_.backward(context, dx, dnormed, x, /*accumulate=*/false);
}

double GptHead::forward_flops() const {
  return 2.0 * static_cast<double>(rows_) * static_cast<double>(options_.hidden) *
         static_cast<double>(padded_vocabulary(options_.vocabulary));
}

}  // namespace trireme
