// SPDX-License-Identifier: Apache-2.0
// Published transformers as the layers that the planner reads.
#pragma once

#include <fmt/format.h>

#include "runtime/plan/step_time.h"

namespace trireme::plan::test {

struct Transformer {
  std::int64_t layers = 1, hidden = 1, heads = 1, kv_heads = 1;
  std::int64_t ffn = 1;  // width between the products of the MLP
  std::int64_t vocabulary = 1, context = 1;
  bool gated = false;  // SwiGLU: two products in, one out
};

// Matrices of a block: elements.
inline double block_parameters(const Transformer& t) {
  const double head = static_cast<double>(t.hidden) / static_cast<double>(t.heads);
  const double qkv = head * static_cast<double>(t.heads + 2 * t.kv_heads);
  const auto hidden = static_cast<double>(t.hidden);
  return hidden * (qkv + hidden + static_cast<double>(t.ffn) * (t.gated ? 3 : 2));
}

// Per token, forward and backward, as counted by Megatron-LM and torchtitan: 6 per weight of a
// product, and attention without a mask.
inline double published_flops(const Transformer& t) {
  const auto hidden = static_cast<double>(t.hidden);
  const double weights = static_cast<double>(t.layers) * block_parameters(t) +
                         hidden * static_cast<double>(t.vocabulary);
  return 6 * weights + 12 * static_cast<double>(t.layers * t.context) * hidden;
}

// The chain of models/gpt: an embedding, blocks, a head. Attention counts the half that the mask
// leaves.
inline std::vector<LayerSummary> transformer_layers(const Transformer& t,
                                                    const BuildOptions& build) {
  const std::int64_t batch = build.micro_batch, head = t.hidden / t.heads;
  const auto rows = static_cast<double>(batch * t.context);
  const Shape output = build.sums.sequence ? Shape{batch * t.context / build.tensor.ranks, t.hidden}
                                           : Shape{batch, t.context, t.hidden};
  const auto matrix = [](std::string name, std::int64_t out, std::int64_t in, int axis, int parts) {
    return ParamSpec{.name = std::move(name),
                     .shape = {out, in},
                     .matrix = true,
                     .shard_axis = axis,
                     .shard_parts = parts};
  };
  std::vector<LayerSummary> layers;
  layers.push_back({.name = "embedding",
                    .output = output,
                    .held = output.count(),
                    .handed_on = output.count(),
                    .params = {matrix("embedding.weight", t.vocabulary, t.hidden, 0, 1)},
                    .splits_backward = true});
  for (std::int64_t i = 0; i < t.layers; ++i) {
    const std::string name = fmt::format("blocks.{}", i);
    LayerSummary block{.name = name,
                       .output = output,
                       .held = output.count(),
                       .handed_on = output.count(),
                       .splits_backward = true};
    block.forward_flops =
        2 * rows * block_parameters(t) + 2 * rows * static_cast<double>(t.context * t.hidden);
    block.params = {
        {.name = name + ".norm1", .shape = {t.hidden}},
        matrix(name + ".qkv", (t.heads + 2 * t.kv_heads) * head, t.hidden, 0, 1),
        matrix(name + ".output", t.hidden, t.hidden, 1, 1),
        {.name = name + ".norm2", .shape = {t.hidden}},
        matrix(name + ".expand", t.gated ? 2 * t.ffn : t.ffn, t.hidden, 0, t.gated ? 2 : 1),
        matrix(name + ".contract", t.hidden, t.ffn, 1, 1)};
    layers.push_back(std::move(block));
  }
  layers.push_back({.name = "head",
                    .forward_flops = 2 * rows * static_cast<double>(t.vocabulary * t.hidden),
                    .params = {matrix("head.weight", t.vocabulary, t.hidden, 0, 1)},
                    .splits_backward = true});
  return layers;
}

}  // namespace trireme::plan::test
