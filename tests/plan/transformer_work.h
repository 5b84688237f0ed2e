// SPDX-License-Identifier: Apache-2.0
// The work of published transformers, from their shapes: we have no code of theirs to count.
#pragma once

#include <algorithm>

#include "runtime/base/dtype.h"
#include "tests/plan/transformer_layers.h"

namespace trireme::plan::test {

struct SystemTraits : EngineTraits {
  // Memory traffic of element-wise ops, relative to reading and writing operands and results of
  // products once: 1 with fused kernels, more with separate ops.
  double elementwise_traffic = 1;
  // Fraction of a block's products that selective recomputation repeats, in place of attention.
  double selective_matmuls = 0;
};

inline std::vector<Traffic> scaled(std::vector<Traffic> work, double factor) {
  for (Traffic& each : work) {
    each.read *= factor;
    each.flops *= factor;
  }
  return work;
}

// Every product with fp8 quantises its operands and its result.
inline LayerWork work_of(const LayerSummary& layer, const Transformer& t, const BuildOptions& build,
                         Precision precision, const SystemTraits& system) {
  const auto element = static_cast<double>(size_of(build.compute));
  const double tensor = build.tensor.ranks;
  const auto rows = static_cast<double>(build.micro_batch * t.context);
  const double rows_whole = build.sums.sequence ? rows / tensor : rows;
  const bool block = layer.name.starts_with("blocks");
  const bool fp8 = block && precision == Precision::fp8;
  if (layer.forward_flops == 0) {  // a gather and its positions
    const Traffic gather{.read = 3 * element * static_cast<double>(layer.held)};
    return {.forward = {gather}, .backward_weight = {gather}};
  }
  std::vector<Traffic> matmuls;
  Traffic elementwise, quantising{.kernels = 0};
  double rest = layer.forward_flops / tensor;
  for (const ParamSpec& spec : layer.params) {
    if (!spec.matrix) continue;
    const bool rows_split = spec.shard_axis == 1;
    const double out = static_cast<double>(spec.shape[0]) / (rows_split ? 1 : tensor);
    const double in = static_cast<double>(spec.shape[1]) / (rows_split ? tensor : 1);
    const double operands = rows * (in + out) + in * out;
    matmuls.push_back({.rate = fp8 ? WorkRate::matmul_fp8 : WorkRate::matmul,
                       .read = operands * (fp8 ? 1 : element),
                       .flops = 2 * rows * in * out,
                       .smallest = std::min({rows, in, out})});
    rest -= matmuls.back().flops;
    elementwise.read +=
        system.elementwise_traffic * element *
        ((rows_split ? rows : rows_whole) * in + (rows_split ? rows_whole : rows) * out);
    ++elementwise.kernels;
    if (fp8) quantising.read += operands * (element + 1);
  }
  std::vector<Traffic> attention;
  if (rest > 0)
    attention.push_back({.rate = WorkRate::attention,
                         .flops = rest,
                         .smallest = static_cast<double>(t.hidden / t.heads)});
  LayerWork work;
  const auto add = [](std::vector<Traffic>& to, const std::vector<Traffic>& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  work.forward = work.backward_weight = matmuls;
  work.backward_weight.push_back(quantising);
  work.backward_input = work.backward_weight;
  add(work.forward, attention);
  add(work.forward, {elementwise, quantising});
  // Attention computes scores again, then four products for two (FlashAttention, 2022).
  add(work.backward_input, scaled(attention, 2.5));
  add(work.backward_input, {elementwise, elementwise});
  if (!block || build.recompute == Recompute::none) return work;
  if (build.recompute == Recompute::full) {
    work.recompute = work.forward;
  } else if (system.selective_matmuls > 0) {
    work.recompute = scaled(matmuls, system.selective_matmuls);
    work.recompute.push_back(elementwise);
  } else {  // attention and the activation function; both halves of a split backward need it
    work.recompute = scaled({elementwise}, 0.5);
    for (int i = 0; i < (build.split_backward ? 2 : 1); ++i)
      add(work.recompute, attention);
  }
  return work;
}

}  // namespace trireme::plan::test
