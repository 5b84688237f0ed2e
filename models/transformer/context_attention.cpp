// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/context_attention.h"

#include "models/transformer/head_exchange.h"
#include "models/transformer/key_gather.h"

namespace trireme {

namespace {

// Whether a rank of K sends fewer bytes as whole heads: rows of queries, keys, values and outputs,
// and in backward of outputs and gradients, against all keys and values twice and their gradients
// in f32. For equal bits the number of ranks has no say.
bool heads_send_less(const Blueprint& blueprint, const ops::AttentionOptions& options) {
  const ContextSplit& split = blueprint.options().context;
  const std::int64_t K = split.blocks, keys = 2 * options.kv_heads;
  if (options.heads % K != 0 || options.kv_heads % K != 0) return false;
  const auto element = static_cast<std::int64_t>(size_of(blueprint.compute()));
  const std::int64_t exchanged = (4 * options.heads + 2 * (options.heads + keys)) * element / K;
  const std::int64_t gathered = 2 * keys * element + keys * std::int64_t{sizeof(float)};
  return exchanged < gathered;
}

}  // namespace

std::unique_ptr<ContextAttention> make_context_attention(Blueprint& blueprint,
                                                         const ops::AttentionOptions& options,
                                                         std::int64_t size) {
  const ContextMode mode = blueprint.options().context.mode;
  if (mode == ContextMode::heads ||
      (mode == ContextMode::automatic && heads_send_less(blueprint, options)))
    return std::make_unique<HeadExchange>(blueprint, options, size);
  return std::make_unique<KeyGather>(blueprint, options, size);
}

}  // namespace trireme
