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

}  // namespace trireme
