// SPDX-License-Identifier: Apache-2.0
#include "models/gpt/block.h"

#include <cmath>

#include "runtime/base/philox.h"
#include "runtime/ops/attention.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/gelu.h"

namespace trireme {
namespace {

Init residual_init(const GptOptions& options) {
  return Init::normal(options.init_deviation /
                      std::sqrt(2.0F * static_cast<float>(options.layers)));
}

std::uint64_t site_id(const Blueprint& blueprint, std::string_view site) {
  const std::string name = blueprint.full_name(site);
  return stable_id(name.data(), name.size());
}

}  // namespace

GptBlock::GptBlock(Blueprint& blueprint, const GptOptions& options, std::int64_t index)
    : Layer(fmt::format("blocks.{}", index),
            Shape{blueprint.micro_batch(), options.context, options.hidden}),
      options_(options),
      rows_(blueprint.micro_batch() * options.context),
      attention_site_(site_id(blueprint, "attention.dropout")),
      mlp_site_(site_id(blueprint, "mlp.dropout")),
      norm1_(blueprint, "norm1", rows_, options.hidden),
      qkv_(blueprint, "attention.qkv", options.hidden, 3 * options.hidden,
           Init::normal(options.init_deviation)),
      output_(blueprint, "attention.output", options.hidden, options.hidden,
              residual_init(options)),
      norm2_(blueprint, "norm2", rows_, options.hidden),
      expand_(blueprint, "mlp.expand", options.hidden, 4 * options.hidden,
              Init::normal(options.init_deviation)),
      contract_(blueprint, "mlp.contract", 4 * options.hidden, options.hidden,
                residual_init(options)) {
  const std::int64_t B = blueprint.micro_batch(), T = options.context, C = options.hidden;
  normed1_ = blueprint.keep({B, T, C});
  qkv_out_ = blueprint.keep({B, T, 3 * C});
  lse_ = blueprint.keep({B, options.heads, T}, DType::f32);
  attended_ = blueprint.keep({B, T, C});
  middle_ = blueprint.keep({B, T, C});
  normed2_ = blueprint.keep({B, T, C});
  expanded_ = blueprint.keep({B, T, 4 * C});
  activated_ = blueprint.keep({B, T, 4 * C});
  wide_ = blueprint.scratch({B, T, 4 * C});  // d(activated), then d(qkv)
  narrow_ = blueprint.scratch({B, T, C});
  if (options.dropout > 0) dropped_ = blueprint.scratch({B, T, C});
}

void GptBlock::project(const Context& context, const Linear& branch, const Tensor& out,
                       const Tensor& in, const Tensor& residual, std::uint64_t site) const {
  if (!context.training || options_.dropout == 0) {
    branch.forward(context, out, in, residual);
    return;
  }
  branch.forward(context, out, in);
  ops::dropout(context.stream, out, out, context.batch.sample_ids, context.rng, site,
               options_.dropout);
  ops::add_in_place(context.stream, out, residual);
}

Tensor GptBlock::branch_gradient(const Context& context, const Tensor& dy,
                                 std::uint64_t site) const {
  if (options_.dropout == 0) return dy;
  const Tensor masked = context(dropped_);
  ops::dropout(context.stream, masked, dy, context.batch.sample_ids, context.rng, site,
               options_.dropout);
  return masked;
}

void GptBlock::forward(const Context& context, const Tensor& x, const Tensor& y) {
  const Tensor normed1 = context(normed1_), qkv = context(qkv_out_), attended = context(attended_);
  const Tensor middle = context(middle_), normed2 = context(normed2_);
  const Tensor expanded = context(expanded_), activated = context(activated_);

  norm1_.forward(context, normed1, x);
  qkv_.forward(context, qkv, normed1);
  ops::attention_forward(context.stream, attended, context(lse_), qkv, options_.heads);
  project(context, output_, middle, attended, x, attention_site_);

  norm2_.forward(context, normed2, middle);
  expand_.forward(context, expanded, normed2);
  ops::gelu_forward(context.stream, activated, expanded);
  project(context, contract_, y, activated, middle, mlp_site_);
}

void GptBlock::backward(const Context& context, const Tensor& x, const Tensor& /*y*/,
                        const Tensor& dy, const Tensor& dx) {
  TRIREME_EXPECTS(dx.data == dy.data, "the residual gradient is updated in place");
  const Tensor wide = context(wide_), narrow = context(narrow_);

  contract_.backward(context, wide, branch_gradient(context, dy, mlp_site_), context(activated_));
  ops::gelu_backward(context.stream, wide, wide, context(expanded_));
  expand_.backward(context, narrow, wide, context(normed2_));
  norm2_.backward(context, dy, narrow, context(middle_), /*accumulate=*/true);

  const Tensor dqkv{wide.data, wide.dtype, context(qkv_out_).shape};
  output_.backward(context, narrow, branch_gradient(context, dy, attention_site_),
                   context(attended_));
  ops::attention_backward(context.stream, dqkv, narrow, context(attended_), context(lse_),
                          context(qkv_out_), options_.heads);
  qkv_.backward(context, narrow, dqkv, context(normed1_));
  norm1_.backward(context, dy, narrow, x, /*accumulate=*/true);
}

double GptBlock::forward_flops() const {
  // Scores and weighted values, half of them masked away: 2 * (2 * T * C) / 2 per token.
  const double attention = 2.0 * static_cast<double>(rows_ * options_.context * options_.hidden);
  return qkv_.forward_flops(rows_) + output_.forward_flops(rows_) + expand_.forward_flops(rows_) +
         contract_.forward_flops(rows_) + attention;
}

}  // namespace trireme
