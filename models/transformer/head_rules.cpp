// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/head_rules.h"

#include "models/transformer/transformer.h"

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

void check_width_transfer(const config::Subject& subject, std::int64_t base_width) {
  const OptimizerKind optimizer = subject.config.optimizer.name;
  if (base_width == 0 || subject.purpose != Purpose::train || traits_of(optimizer).own_rates)
    return;
  refuse(subject, "model.mup_base_width",
         "{} with optimizer.name: {}; learning rates that carry over widths are those of Adam's "
         "kind: use adamw or lion, or off",
         base_width, name_of(optimizer));
}

}  // namespace trireme
