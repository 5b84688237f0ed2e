// SPDX-License-Identifier: Apache-2.0
// The keys of the model section that transformer families share, each declared once: a family has
// those whose names are members of its options.
#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

#include "models/transformer/activation_names.h"
#include "models/transformer/transformer.h"
#include "runtime/config/key_table.h"
#include "runtime/config/rules/rules.h"

namespace trireme {

inline constexpr config::NumberRange rope_theta_range{.low = 1, .high = 1e12, .low_is_open = true};

// A row, where a family has the member.
#define TRIREME_SHARED_CHANGING(effect, name, ...) \
  if constexpr (requires(Options o) { o.name; })   \
  rows.push_back(TRIREME_MODEL_FIELD(Options, name, __VA_ARGS__).changing(config::Effect::effect))
#define TRIREME_SHARED(name, ...) TRIREME_SHARED_CHANGING(function, name, __VA_ARGS__)

template <typename Options>
void add_expert_fields(std::vector<config::Field>& rows) {
  using config::IntegerRange;
  using config::NumberRange;
  TRIREME_SHARED(
      experts, (IntegerRange{1, 512, {}, "none"}),
      "experts of each layer, in the place of its MLP; none = a dense model (not gpt_oss)");
  TRIREME_SHARED(experts_per_token, (IntegerRange{1, 32}), "experts that a token visits");
  TRIREME_SHARED(expert_intermediate, (IntegerRange{1, 1 << 20, {}, "auto"}),
                 "width of each expert; auto = model.intermediate");
  TRIREME_SHARED(shared_intermediate, (IntegerRange{1, 1 << 20, {}, "none"}),
                 "width of an MLP beside the experts that every token visits; none = no such MLP");
  TRIREME_SHARED(experts_every, (IntegerRange{1, 1024}),
                 "every N-th layer has experts, the others an MLP of model.intermediate");
  TRIREME_SHARED(dense_layers, (IntegerRange{0, 1023, {0, 1024}}),
                 "layers, from 0, that have an MLP of model.intermediate instead of experts");
  TRIREME_SHARED(router, config::one_of<ops::RouterScore>(),
                 "weights of the chosen experts: softmax over all logits, softmax_of_chosen over "
                 "those of the chosen experts, or sigmoid of each (DeepSeek-V3)");
  TRIREME_SHARED(router_renormalize, config::Free{},
                 "the weights of a token's experts are divided by their sum (norm_topk_prob)");
  TRIREME_SHARED(router_scale, (NumberRange{.low = 0, .high = 1e6, .low_is_open = true}),
                 "then multiplied by this (routed_scaling_factor)");
  TRIREME_SHARED(router_groups, (IntegerRange{1, 512}),
                 "groups of experts; a token chooses from some of them (n_group)");
  TRIREME_SHARED(router_groups_kept, (IntegerRange{1, 512}),
                 "groups that a token chooses from: those with the largest sums of their two best "
                 "scores (topk_group)");
  TRIREME_SHARED(router_balanced, config::Free{},
                 "for benchmarks: experts take turns, weighed by the router's scores");
  TRIREME_SHARED(balance_loss, (NumberRange{.low = 0, .high = 1e6}),
                 "coefficient of the loss for an even load of experts over a global batch, from "
                 "the load of the last step");
  TRIREME_SHARED(sequence_balance_loss, (NumberRange{.low = 0, .high = 1e6}),
                 "coefficient of the loss for an even load within each sequence");
  TRIREME_SHARED(router_z_loss, (NumberRange{.low = 0, .high = 1e6}),
                 "coefficient of the mean of logsumexp(router logits)^2");
  TRIREME_SHARED(balance_rate, (NumberRange{.low = 0, .high = 1}),
                 "change per step of the biases that steer the choice of experts towards an even "
                 "load, without a loss (DeepSeek-V3: 0.001); 0 = none");
}

// The shared keys, and after them a family's own.
template <typename Options>
[[nodiscard]] std::vector<config::Field> transformer_fields(std::vector<config::Field> own = {}) {
  using config::IntegerRange;
  using config::NumberRange;
  std::vector<config::Field> rows;
  TRIREME_SHARED(layers, IntegerRange{1, 1024}, "transformer blocks");
  TRIREME_SHARED(hidden, IntegerRange{1, 65536}, "width of the residual stream");
  TRIREME_SHARED(heads, IntegerRange{1, 1024},
                 "attention heads, of queries; a divisor of model.hidden unless model.head_size "
                 "is set");
  TRIREME_SHARED(context, IntegerRange{1, 1 << 24}, "tokens per sequence");
  TRIREME_SHARED(vocabulary, IntegerRange{2, 2147483647}, "token ids; 256 = bytes");
  TRIREME_SHARED_CHANGING(history, dropout,
                          (NumberRange{.low = 0, .high = 1, .high_is_open = true}),
                          "dropout probability");
  rows.push_back(TRIREME_MODEL_FIELD(
                     Options, init_std, (NumberRange{.low = 0, .high = 10, .low_is_open = true}),
                     "standard deviation of the normal distribution of initial matrices; 0.02 "
                     "as published, about 1/sqrt(hidden) for small models")
                     .changing(config::Effect::history)
                     .formerly_named("model.init_deviation"));
  TRIREME_SHARED(activation, config::one_of<ops::ActivationKind>(),
                 "activation of the MLP; device.fused_epilogues can fuse gelu_tanh into matmuls");
  TRIREME_SHARED_CHANGING(
      history, position_init, config::one_of<PositionInit>(),
      "initial learned positions: normal as published, or sinusoidal (small models "
      "learn much faster)");
  TRIREME_SHARED(
      mup_base_width, (IntegerRange{1, 65536, {}, "off"}),
      "muP: model.hidden of the small model that learning_rate and init_std were tuned for; wider "
      "models of the same head size then use them unchanged (Yang et al., 2022)");
  TRIREME_SHARED(kv_heads, (IntegerRange{1, 1024, {}, "auto"}),
                 "heads of keys and values (grouped-query attention); divides model.heads; auto = "
                 "model.heads");
  TRIREME_SHARED(head_size, (IntegerRange{1, max_head_size, {}, "auto"}),
                 "width of a head, even; auto = model.hidden / model.heads");
  TRIREME_SHARED(
      intermediate, (IntegerRange{1, 1 << 20, {}, "auto"}),
      "width of the MLP (gpt_oss: of each expert); auto = 4 x model.hidden, for a gated MLP 8/3 "
      "x model.hidden rounded up to a multiple of 64");
  TRIREME_SHARED(norm_epsilon, (NumberRange{.low = 0, .high = 1, .low_is_open = true}),
                 "added to the mean square in RMS norms, to the variance in layer norms");
  TRIREME_SHARED(
      gelu, config::one_of<GeluForm>(),
      "exact GELU, or its tanh approximation, which device.fused_epilogues can fuse into matmuls");
  TRIREME_SHARED(window, (IntegerRange{1, std::int64_t{1} << 30, {}, "none"}),
                 "sliding-window attention: tokens that a token attends to, itself included "
                 "(Mistral; Gemma's local layers); none = all");
  TRIREME_SHARED(
      rope_theta, rope_theta_range,
      "base of the rotary frequencies; for gemma3 of global layers (published: 1000000)");
  TRIREME_SHARED(
      rope_factor, (NumberRange{.low = 1, .high = 1e6}),
      "context extension factor of model.rope_scaling; for gemma3 linear, in global layers; for "
      "gpt_oss by YaRN");
  add_expert_fields<Options>(rows);
  std::ranges::move(own, std::back_inserter(rows));
  return rows;
}

#undef TRIREME_SHARED

// A family of token models whose chain follows from transformer_options().
template <typename Options>
[[nodiscard]] config::ModelFamily text_family(std::string_view name,
                                              std::vector<config::Field> (*fields)(),
                                              void (*check)(const config::Subject&)) {
  return {
      .name = name,
      .input = config::Input::tokens,
      .splits_tensor = true,
      .fields = fields,
      .check = check,
      .limits =
          [](const Config& config) {
            return limits_of(transformer_chain(transformer_options(config.model.as<Options>())));
          },
      .targets =
          [](const ModelConfig& model) {
            const auto& options = model.as<Options>();
            const HeadChoice head = head_choice(options);
            if (!head.is_language()) return head_targets(head, options.context);
            return TargetSpec{TargetKind::tokens, Shape{options.context}, options.vocabulary};
          }};
}

// Raises ExitCode::config for a head, and a token that fills sequences, that cannot be.
template <typename Options>
void check_text_head(const config::Subject& subject, const Options& model) {
  check_head(subject, head_choice(model), /*of_texts=*/true);
  if (model.pad_token >= model.vocabulary)
    refuse(subject, "model.pad_token", "{} is not below model.vocabulary = {}", model.pad_token,
           model.vocabulary);
}

// Raises ExitCode::config unless model.heads divides model.hidden into supported head sizes.
void check_heads_of_hidden(const config::Subject& subject, std::int64_t hidden, std::int64_t heads);

// The same for models whose head size may differ from hidden / heads (`given`: model.head_size is
// set), with grouped queries and rotary positions.
void check_rotary_heads(const config::Subject& subject, const TransformerOptions& model,
                        bool given);

// The experts of a family with the keys above.
template <typename Options>
[[nodiscard]] ExpertOptions experts_of(const Options& o, std::int64_t intermediate) {
  if (o.experts == 0) return {};
  return {.count = o.experts,
          .intermediate = o.expert_intermediate > 0 ? o.expert_intermediate : intermediate,
          .shared_intermediate = o.shared_intermediate,
          .router = {.slots = o.experts_per_token,
                     .score = o.router,
                     .renormalize = o.router_renormalize,
                     .scale = static_cast<float>(o.router_scale),
                     .groups = o.router_groups,
                     .groups_kept = o.router_groups_kept,
                     .balanced = o.router_balanced},
          .balance_loss = o.balance_loss,
          .sequence_balance_loss = o.sequence_balance_loss,
          .z_loss = o.router_z_loss,
          .balance_rate = o.balance_rate};
}

// Raises ExitCode::config where the experts contradict themselves or the layers.
void check_experts(const config::Subject& subject, const TransformerOptions& model);

// For a gated MLP: two thirds of 4 x hidden, so its three matrices cost as much as the two of a
// plain MLP.
[[nodiscard]] std::int64_t balanced_intermediate(std::int64_t hidden);

// Checks that the optimizer supports per-parameter learning rates, which transfer from
// model.mup_base_width needs. Raises ExitCode::config.
void check_width_transfer(const config::Subject& subject, std::int64_t base_width);

// TransformerOptions::width.
[[nodiscard]] inline double width_over(std::int64_t hidden, std::int64_t base_width) {
  return base_width == 0 ? 1 : static_cast<double>(hidden) / static_cast<double>(base_width);
}

}  // namespace trireme
