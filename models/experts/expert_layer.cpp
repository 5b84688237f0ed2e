// SPDX-License-Identifier: Apache-2.0
#include "models/experts/expert_layer.h"

#include "runtime/device/work_log.h"
#include "runtime/ops/elementwise/activation.h"

namespace trireme {
namespace {

// Rows of a micro-batch per expert from which bf16x3 matmuls are faster. Weight gradients in
// parts depend on the exchange's rounds and groups, so on the layout.
constexpr std::int64_t rows_for_parts = 128;

}  // namespace

ExpertLayer::Product ExpertLayer::declare(Blueprint& blueprint, std::string_view name,
                                          const Shape& shape, int parts,
                                          const ExpertOptions& options, Init init) {
  const auto scope = blueprint.scope(name);
  Product product;
  product.local = {shape[0] / blueprint.experts().split.ranks, shape[1], shape[2]};
  product.weight = blueprint.parameter({.name = "weight",
                                        .shape = shape,
                                        .init = init,
                                        .decay = true,
                                        .matrix = true,
                                        .shard_axis = 0,
                                        .expert = true,
                                        .expert_parts = parts,
                                        .fused = options.fused});
  if (options.biases) {
    product.bias = blueprint.parameter({.name = "bias",
                                        .shape = {shape[0], shape[1]},
                                        .shard_axis = 0,
                                        .expert = true,
                                        .expert_parts = parts,
                                        .fused = options.fused});
    if (blueprint.trains(product.bias) && !blueprint.trains(product.weight))
      fail(
          ExitCode::config,
          "train.freeze: {} is frozen, but not {}, whose gradient is computed with it; freeze both",
          blueprint.full_name("weight"), blueprint.full_name("bias"));
  }
  return product;
}

ExpertLayer::ExpertLayer(Blueprint& blueprint, const ExpertOptions& options, const RowSplit& rows,
                         Init hidden, Init residual)
    : rows_(rows),
      activation_(options.activation),
      split_backward_(blueprint.splits_backward()),
      recomputes_(blueprint.options().recompute == Recompute::selective),
      router_(blueprint, options, rows, hidden),
      exchange_(blueprint, options.count, options.router.slots, rows),
      products_(rows.rows() * options.router.slots < rows_for_parts * options.count
                    ? ops::F32Products::chains
                    : ops::F32Products::parts),
      sums_(blueprint.layout_bits() ? ops::F32Products::chains : products_) {
  const std::int64_t width = rows.whole()[2], wide = options.intermediate;
  const auto scope = blueprint.scope("experts");
  expand_ = declare(blueprint, "expand", {options.count, 2 * wide, width}, 2, options, hidden);
  contract_ = declare(blueprint, "contract", {options.count, width, wide}, 1, options, residual);
  const std::int64_t held = exchange_.capacity();
  x_ = blueprint.keep({held, width});
  expanded_ = blueprint.keep({held, 2 * wide});
  activated_ = keep_or_recompute(blueprint, {held, wide}, blueprint.compute());
  out_ = blueprint.scratch({held, width});
  const TensorSplit& tensor = blueprint.tensor();
  if (!rows.split() && rows.rows() % tensor.ranks != 0)
    padded_ = blueprint.scratch({(rows.rows() / tensor.ranks + 1) * tensor.ranks, width});
  if (blueprint.options().training) declare_gradients(blueprint, rows, options);
  ExpertMessages& traffic = blueprint.traffic().experts;
  for (const Activation* const each : {&x_, &expanded_, &activated_, &out_, &dy_, &dexpanded_,
                                       &dactivated_, &weights_, &dweights_}) {
    const bool kept = each->space == Activation::Space::kept;
    (kept ? traffic.kept_bytes : traffic.scratch_bytes) +=
        static_cast<std::size_t>(each->shape.count()) * size_of(each->dtype) /
        static_cast<std::size_t>(held);
  }
}

void ExpertLayer::declare_gradients(Blueprint& blueprint, const RowSplit& rows,
                                    const ExpertOptions& options) {
  const std::int64_t held = exchange_.capacity(), width = rows.whole()[2];
  const std::int64_t wide = options.intermediate;
  dy_ = blueprint.until_weight({held, width});
  dexpanded_ = blueprint.until_weight({held, 2 * wide});
  dactivated_ = blueprint.scratch({held, wide});
  weights_ = blueprint.scratch({held}, DType::f32);
  dweights_ = blueprint.scratch({held}, DType::f32);
  dchoice_ = blueprint.scratch({rows.rows(), options.router.slots}, DType::f32);
}

Tensor ExpertLayer::weight(const Context& context, const Product& product) const {
  return context.params.compute(product.weight).reshaped(product.local);
}

Tensor ExpertLayer::bias(const Context& context, const Product& product) const {
  if (product.bias.index < 0) return {};
  return context.params.compute(product.bias).reshaped({product.local[0], product.local[1]});
}

// This rank's home rows of a tensor with the local rows of the residual stream.
Tensor ExpertLayer::own_rows(const Tensor& local) const {
  return rows_.split() ? local : exchange_.home_of(local);
}

void ExpertLayer::start(const Context& context, const Tensor& normed) const {
  router_.forward(context, normed);
  exchange_.plan(context, router_.slots(context));
  exchange_.begin(context, 0, router_.slots(context));
  exchange_.start(context, 0, context(x_), exchange_.home_of(normed));
}

void ExpertLayer::activate(const Context& context) const {
  exchange_.finish(context);
  multiply(context, 0);
}

void ExpertLayer::multiply(const Context& context, int round) const {
  const Tensor x = exchange_.received(context, round, context(x_));
  if (x.count() == 0) return;
  const TimedExperts timed(context.expert_meter, context.stream);
  const Tensor expanded = exchange_.received(context, round, context(expanded_));
  ops::grouped_forward(context.stream, expanded, x, weight(context, expand_),
                       bias(context, expand_), exchange_.group_offsets(context), products_);
  ops::gated_forward(context.stream, exchange_.received(context, round, context(activated_)),
                     expanded, activation_, {});
}

void ExpertLayer::activate_again(const Context& context) const {
  if (exchange_.rounds(context) > 1) return;  // done with the rest of the round
  const Tensor activated = exchange_.received(context, 0, context(activated_));
  if (activated.count() == 0) return;
  const RepeatedWork repeated;
  ops::gated_forward(context.stream, activated, exchange_.received(context, 0, context(expanded_)),
                     activation_, {});
}

void ExpertLayer::send_again(const Context& context, int round, const Tensor& normed) const {
  const RepeatedWork repeated;
  exchange_.begin(context, round, router_.slots(context));
  exchange_.start(context, round, context(x_), exchange_.home_of(normed));
  exchange_.finish(context);
  multiply(context, round);
}

void ExpertLayer::project(const Context& context, const Tensor& out, const Tensor& residual,
                          const Tensor& normed) const {
  const bool padded = padded_.shape.rank() > 0;
  const std::int64_t share = padded ? padded_.shape[0] / exchange_.tensor_ranks() : 0;
  const std::int64_t width = rows_.whole()[2];
  const Tensor own = padded ? context(padded_)
                                  .range(context.tensor->rank() * share * width, share * width)
                                  .reshaped({share, width})
                            : own_rows(out);
  const Tensor weights = exchange_.home_of(router_.weights(context));
  for (int round = 0; round < exchange_.rounds(context); ++round) {
    if (round > 0) send_again(context, round, normed);
    const Tensor rows = exchange_.received(context, round, context(out_));
    if (rows.count() > 0) {
      const TimedExperts timed(context.expert_meter, context.stream);
      ops::grouped_forward(context.stream, rows,
                           exchange_.received(context, round, context(activated_)),
                           weight(context, contract_), bias(context, contract_),
                           exchange_.group_offsets(context), products_);
    }
    exchange_.collect(context, round, own, context(out_), weights,
                      residual.empty() ? residual : own_rows(residual));
  }
  if (rows_.split() || exchange_.tensor_ranks() == 1) return;
  const Tensor whole = padded ? context(padded_) : out;
  context.tensor->all_gather(context.stream, own, whole);
  if (padded) context.stream.device().copy(context.stream, out.data, whole.data, out.bytes());
}

void ExpertLayer::backward_round(const Context& context, int round, const Tensor& gradient) const {
  exchange_.start(context, round, context(dy_), exchange_.home_of(gradient), context(weights_),
                  exchange_.home_of(router_.weights(context)));
  exchange_.finish(context);
  const auto received = [&](const Activation& rows) {
    return exchange_.received(context, round, context(rows));
  };
  const Tensor dy = received(dy_), dactivated = received(dactivated_);
  if (dy.count() == 0) return;
  const TimedExperts timed(context.expert_meter, context.stream);
  const Tensor offsets = exchange_.group_offsets(context);
  ops::grouped_backward_input(context.stream, dactivated, dy, weight(context, contract_), offsets,
                              products_);
  ops::grouped_backward_slots(context.stream, received(dweights_), dactivated, dy,
                              received(activated_), received(weights_), bias(context, contract_),
                              offsets);
  ops::gated_backward(context.stream, received(dexpanded_), dactivated, received(expanded_),
                      activation_, {});
}

void ExpertLayer::accumulate(const Context& context, const Product& product, const Tensor& dy,
                             const Tensor& x) const {
  const ParamStore& params = context.params;
  if (!params.trains(product.weight) || dy.count() == 0) return;
  // A source's rows are those of one micro-batch, a leaf of the sum over the global batch.
  const int sources = params.sources(product.weight);
  const std::int64_t groups = exchange_.groups() * exchange_.data_ranks() / sources;
  for (int source = 0; source < sources; ++source) {
    const Tensor db =
        product.bias.index < 0
            ? Tensor{}
            : params.gradient(product.bias, source).reshaped({product.local[0], product.local[1]});
    ops::grouped_backward_weight(
        context.stream, params.gradient(product.weight, source).reshaped(product.local), db, dy, x,
        exchange_.group_offsets(context), source * groups, groups, sums_);
  }
}

void ExpertLayer::accumulate(const Context& context, int round) const {
  const TimedExperts timed(context.expert_meter, context.stream);
  const auto received = [&](const Activation& rows) {
    return exchange_.received(context, round, context(rows));
  };
  accumulate(context, contract_, received(dy_), received(activated_));
  accumulate(context, expand_, received(dexpanded_), received(x_));
}

void ExpertLayer::backward(const Context& context, const Tensor& dnormed, const Tensor& gradient,
                           const Tensor& normed, bool accumulates) const {
  const Tensor own = own_rows(dnormed), dchoice = context(dchoice_);
  const int rounds = exchange_.rounds(context);
  // Also without weight gradients: those of the router's weights read the activated rows.
  if (recomputes_ && split_backward_) activate_again(context);
  for (int round = 0; round < rounds; ++round) {
    if (rounds > 1) send_again(context, round, normed);
    backward_round(context, round, gradient);
    if (!split_backward_) accumulate(context, round);
    const Tensor dx = exchange_.received(context, round, context(out_));
    if (dx.count() > 0) {
      const TimedExperts timed(context.expert_meter, context.stream);
      ops::grouped_backward_input(
          context.stream, dx, exchange_.received(context, round, context(dexpanded_)),
          weight(context, expand_), exchange_.group_offsets(context), products_);
    }
    exchange_.collect(context, round, own, context(out_), {}, accumulates ? own : Tensor{},
                      exchange_.home_of(dchoice), context(dweights_));
  }
  const bool shared = exchange_.tensor_ranks() > 1;
  if (shared) context.tensor->all_gather(context.stream, exchange_.home_of(dchoice), dchoice);
  router_.backward(context, own, exchange_.first_home(), dchoice, normed);
  if (!split_backward_) report(context);
  if (shared && !rows_.split()) context.tensor->all_gather(context.stream, own, dnormed);
}

void ExpertLayer::backward_weight(const Context& context, const Tensor& gradient,
                                  const Tensor& normed) const {
  const int rounds = exchange_.rounds(context);
  for (int round = 0; round < rounds; ++round) {
    if (rounds > 1) {
      send_again(context, round, normed);
      backward_round(context, round, gradient);
    }
    accumulate(context, round);
  }
  router_.backward_weight(context, normed);
  report(context);
}

void ExpertLayer::report(const Context& context) const {
  for (const Product* const product : {&contract_, &expand_}) {
    for (const ParamId id : {product->bias, product->weight})
      if (id.index >= 0) context.ready(id);
  }
}

void ExpertLayer::add_limits(ModelLimits& limits) const {
  limits.experts = {expand_.local[0], "model.experts"};
  if (router_.balances_sequences()) limits.whole_sequences = "model.sequence_balance_loss";
}

}  // namespace trireme
