// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/keys.h"

namespace trireme {

void check_heads_of_hidden(const config::Subject& subject, std::int64_t hidden,
                           std::int64_t heads) {
  const std::int64_t fewest = (hidden + max_head_size - 1) / max_head_size;
  const std::string fitting = config::any_of(config::near_divisors(hidden, heads, fewest));
  if (hidden % heads != 0) {
    refuse(subject, "model.heads", "{} does not divide model.hidden = {}; use {}", heads, hidden,
           fitting);
  }
  if (hidden / heads > max_head_size) {
    refuse(subject, "model.heads",
           "{} heads over model.hidden = {} are {} wide, more than {}; use {}", heads, hidden,
           hidden / heads, max_head_size, fitting);
  }
}

void check_rotary_heads(const config::Subject& subject, const TransformerOptions& model,
                        bool given) {
  if (model.heads % model.kv_heads != 0) {
    refuse(subject, "model.kv_heads", "{} does not divide model.heads = {}; use {}", model.kv_heads,
           model.heads, config::any_of(config::near_divisors(model.heads, model.kv_heads)));
  }
  if (!given && model.hidden % model.heads != 0) {
    refuse(subject, "model.heads",
           "{} does not divide model.hidden = {}; use {}, or set model.head_size", model.heads,
           model.hidden, config::any_of(config::near_divisors(model.hidden, model.heads)));
  }
  const std::int64_t size = model.head_size;
  if (size % 2 == 0 && size <= max_head_size) return;
  refuse(subject, given ? "model.head_size" : "model.heads",
         "{}; rotary positions rotate pairs, and kernels support up to {}: use an even head size "
         "up to that{}",
         given ? fmt::format("{} is a head size", size)
               : fmt::format("{} heads over model.hidden = {} are {} wide", model.heads,
                             model.hidden, size),
         max_head_size, given ? "" : ", by other heads or model.head_size");
}

void check_experts(const config::Subject& subject, const TransformerOptions& model) {
  const ExpertOptions& experts = model.experts;
  const ops::RouterOptions& router = experts.router;
  if (!experts.any()) return;
  if (router.slots > experts.count) {
    refuse(subject, "model.experts_per_token", "{} of model.experts = {}; use {} or less",
           router.slots, experts.count, experts.count);
  }
  if (experts.count % router.groups != 0 ||
      (router.groups > 1 && experts.count < 2 * router.groups)) {
    refuse(subject, "model.router_groups",
           "{} groups of model.experts = {}; use a divisor with two or more experts in each group",
           router.groups, experts.count);
  }
  const std::int64_t choice = experts.count / router.groups * router.groups_kept;
  if (router.groups_kept > router.groups || choice < router.slots) {
    refuse(subject, "model.router_groups_kept",
           "{} of {} groups with {} experts each, for model.experts_per_token = {}; use {} to {}",
           router.groups_kept, router.groups, experts.count / router.groups, router.slots,
           (router.slots * router.groups + experts.count - 1) / experts.count, router.groups);
  }
  if (router.balanced && subject.purpose != Purpose::train) {
    refuse(subject, "model.router_balanced",
           "true routes tokens for training benchmarks alone; use false");
  }
  if (router.balanced && (router.groups > 1 || experts.balance_rate > 0)) {
    refuse(subject, "model.router_balanced", "true leaves {} without effect; use {}",
           router.groups > 1 ? "model.router_groups" : "model.balance_rate",
           router.groups > 1 ? "1 group" : "0");
  }
  std::int64_t sparse = 0;
  for (std::int64_t i = 0; i < model.layers; ++i)
    sparse += model.of_layer(i).experts.any() ? 1 : 0;
  for (const std::int64_t layer : model.dense_layers) {
    if (layer >= model.layers)
      refuse(subject, "model.dense_layers", "names layer {}, but the last of {} layers is {}",
             layer, model.layers, model.layers - 1);
  }
  if (sparse == 0) {
    refuse(subject, model.dense_layers.empty() ? "model.experts_every" : "model.dense_layers",
           "leaves none of {} layers with experts; use model.experts: none for a dense model",
           model.layers);
  }
  if (subject.purpose == Purpose::train && subject.config.optimizer.name == OptimizerKind::muon) {
    refuse(subject, "optimizer.name",
           "muon with model.experts = {}; it orthogonalises matrices, not experts': use adamw",
           experts.count);
  }
  if (model.width != 1) {
    refuse(subject, "model.mup_base_width",
           "with model.experts = {}; learning rates of experts do not carry over between widths: "
           "use off",
           experts.count);
  }
}

std::int64_t balanced_intermediate(std::int64_t hidden) {
  constexpr std::int64_t multiple = 64;
  const std::int64_t wanted = (8 * hidden + 2) / 3;
  return (wanted + multiple - 1) / multiple * multiple;
}

void check_width_transfer(const config::Subject& subject, std::int64_t base_width) {
  const OptimizerKind optimizer = subject.config.optimizer.name;
  if (base_width == 0 || subject.purpose != Purpose::train || traits_of(optimizer).own_rates)
    return;
  refuse(subject, "model.mup_base_width",
         "{} with optimizer.name: {}; learning rates carry over to other widths only with adamw "
         "and lion: use one of these, or off",
         base_width, name_of(optimizer));
}

}  // namespace trireme
