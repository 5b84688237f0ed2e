// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/mlp.h"

#include "models/layers/blocks.h"

namespace trireme {
namespace {

std::vector<std::string_view> part_names(bool gated) {
  if (gated) return {"gate", "up"};
  return {};
}

}  // namespace

Mlp::Mlp(Blueprint& blueprint, const TransformerOptions& options, const PartialSum& sum)
    : gated_(options.gated_mlp),
      fusible_(!gated_ && options.activation == ops::ActivationKind::gelu_tanh),
      activation_(options.activation),
      intermediate_{options.intermediate, std::string(options.intermediate_name)},
      blocks_(blueprint.tensor().local()),
      expand_(blueprint, "expand",
              {.outputs = options.intermediate * (gated_ ? 2 : 1),
               .parts = gated_ ? 2 : 1,
               .bias = options.biases == Biases::all,
               .part_names = part_names(gated_)},
              options.hidden_init(), sum),
      contract_(blueprint, "contract", options.intermediate, options.biases == Biases::all,
                options.residual_init(), sum) {
  fusible_ = fusible_ && !expand_.is_adapted();
  const Shape activated = blocks_of(blocks_, contract_.block_shape());
  expanded_ = blueprint.keep(blocks_of(blocks_, expand_.block_shape()));
  activated_ = keep_or_recompute(blueprint, activated, blueprint.compute());
  if (!blueprint.options().training) return;
  dexpanded_ = blueprint.until_weight(expanded_.shape);
  if (gated_) dactivated_ = blueprint.scratch(activated);
}

void Mlp::forward(const Context& context, const Tensor& normed, const Tensor& normed_amax) const {
  const Tensor amax = contract_.x_amax(context);
  if (fusible_) {
    expand_.forward_gelu(context, context(activated_), context(expanded_), normed, normed_amax,
                         amax);
  } else {
    expand_.forward(context, context(expanded_), normed, normed_amax);
    activate(context, amax);
  }
}

void Mlp::activate(const Context& context, const Tensor& amax) const {
  const Tensor activated = context(activated_), expanded = context(expanded_);
  for (std::int64_t b = 0; b < blocks_; ++b) {
    const Tensor to = block_of(activated, b, contract_.block_shape());
    const Tensor from = block_of(expanded, b, expand_.block_shape());
    gated_ ? ops::gated_forward(context.stream, to, from, activation_, value_of(amax, b))
           : ops::activation_forward(context.stream, to, from, activation_, value_of(amax, b));
  }
}

void Mlp::backward(const Context& context, const Tensor& dnormed, const Tensor& gradient,
                   const Tensor& normed, const Tensor& gradient_amax) const {
  const Tensor dexpanded = context(dexpanded_), expanded = context(expanded_);
  const Tensor amax = expand_.dy_amax(context);
  if (gated_) {
    const Tensor dactivated = context(dactivated_);
    contract_.backward(context, dactivated, gradient, context(activated_), gradient_amax);
    for (std::int64_t b = 0; b < blocks_; ++b) {
      ops::gated_backward(context.stream, block_of(dexpanded, b, expand_.block_shape()),
                          block_of(dactivated, b, contract_.block_shape()),
                          block_of(expanded, b, expand_.block_shape()), activation_,
                          value_of(amax, b));
    }
  } else if (fusible_) {
    contract_.backward_gelu(context, dexpanded, gradient, context(activated_), expanded,
                            gradient_amax, amax);
  } else {
    contract_.backward(context, dexpanded, gradient, context(activated_), gradient_amax);
    for (std::int64_t b = 0; b < blocks_; ++b) {
      const Tensor block = block_of(dexpanded, b, expand_.block_shape());
      ops::activation_backward(context.stream, block, block,
                               block_of(expanded, b, expand_.block_shape()), activation_,
                               value_of(amax, b));
    }
  }
  expand_.backward(context, dnormed, dexpanded, normed, amax);
}

void Mlp::backward_weight(const Context& context, const Tensor& gradient,
                          const Tensor& normed) const {
  contract_.backward_weight(context, gradient, context(activated_));
  expand_.backward_weight(context, context(dexpanded_), normed);
}

void Mlp::add_limits(ModelLimits& limits) const {
  limits.tensor.push_back(intermediate_);
  if (fusible_) limits.gelu = intermediate_;
}

}  // namespace trireme
