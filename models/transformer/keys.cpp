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
