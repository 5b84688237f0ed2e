// SPDX-License-Identifier: Apache-2.0
// ParamSpec: all properties of a parameter, declared once. Allocator, initialiser, tensor sharder,
// optimizer, reducer, weight files and planner read it. The arenas are in param_store.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/shape.h"

namespace trireme {

// How tensor parallelism splits parameters. Layers compute in `blocks` fixed blocks, whatever the
// number of ranks; a rank owns a run of adjacent blocks. So for equal `blocks` the arithmetic and
// the bits do not depend on the number of ranks.
struct TensorSplit {
  int ranks = 1;
  int rank = 0;
  int blocks = 1;  // a multiple of ranks

  [[nodiscard]] constexpr int local() const { return blocks / ranks; }
  [[nodiscard]] constexpr int first() const { return rank * local(); }
  [[nodiscard]] constexpr bool blocked() const { return blocks > 1; }
  friend constexpr bool operator==(const TensorSplit&, const TensorSplit&) = default;
};

struct ParamSpec;

// The splits of a rank: of most parameters over the tensor group, and of experts' over the expert
// group, which is one or more whole tensor groups.
struct ParamSplits {
  TensorSplit tensor{}, experts{};

  // Also converts from a tensor split: most models have no experts.
  constexpr ParamSplits(const TensorSplit& tensor_split = {}, const TensorSplit& expert_split = {})
      : tensor(tensor_split), experts(expert_split) {}
  // Data ranks that share each expert's parameters out among them.
  [[nodiscard]] constexpr int expert_data_ranks() const {
    return experts.ranks > tensor.ranks ? experts.ranks / tensor.ranks : 1;
  }
  // This rank's number among them.
  [[nodiscard]] constexpr int expert_data_rank() const { return experts.rank / tensor.ranks; }
  [[nodiscard]] constexpr const TensorSplit& of(const ParamSpec& spec) const;
};

struct Init {
  enum class Kind : std::uint8_t { constant, normal, uniform, sinusoid };
  Kind kind = Kind::constant;
  float a = 0;  // the constant, the mean, the lower bound or the amplitude
  float b = 0;  // the stddev or the upper bound
  // Multiplies the learning rate of this parameter; only Adam-type optimizers support values but 1.
  float rate = 1;

  [[nodiscard]] Init at_rate(float multiplier) const {
    Init init = *this;
    init.rate = multiplier;
    return init;
  }
  static Init constant(float value) { return {Kind::constant, value, 0, 1}; }
  static Init normal(float stddev) { return {Kind::normal, 0, stddev, 1}; }
  static Init uniform(float bound) { return {Kind::uniform, -bound, bound, 1}; }
  static Init sinusoid(float amplitude) { return {Kind::sinusoid, amplitude, 0, 1}; }
};

enum class ParamKind : std::uint8_t {
  weight,
  // A running statistic, such as batch norm's. Its gradient slot collects this step's value, which
  // is summed over micro-batches and ranks like a gradient; then p = decay * p + (1 - decay) *
  // collected.
  statistic,
  // A weight that is not trained: no gradient, no moments, no collective. Every data-parallel rank
  // holds all of it in every ZeRO stage.
  frozen
};

struct ParamSpec {
  std::string name;  // "blocks.0.attention.qkv.weight"
  Shape shape{};
  Init init{};
  bool decay = false;   // weight decay applies
  bool matrix = false;  // read by kernels in the compute dtype; others stay fp32
  bool hidden =
      false;  // a matrix between hidden activations, (out, in), or filters (out, ...): for Muon
  int shard_axis = -1;  // axis that tensor parallelism splits, 0 or 1; -1: replicated
  // (E, ...), one part for each of E experts: expert parallelism splits axis 0, the shard_axis.
  bool expert = false;
  int shard_parts = 1;   // the axis holds this many tensors in a row, each split alone (q, k, v)
  int shard_lead = 1;    // length of the first part in lengths of the others (grouped queries)
  int expert_parts = 1;  // each expert's part holds this many tensors in a row (gate, up)
  // To optimizers that look at whole tensors each of these parts is one, as in most published
  // models. Fused: all of the parameter is one (GPT-2's qkv, gpt-oss' experts).
  bool fused = false;
  // Parameters with the same `tie` always have the same values: they start equal and their
  // gradients are summed. The original is the one named like the tie; the others are copies. A
  // store without separate ties makes them one parameter.
  std::string tie{};
  ParamKind kind = ParamKind::weight;
  float statistic_decay = 0.9F;
  // A statistic that steers experts' load instead: by this much per step towards the experts whose
  // collected counts are below their mean (ops/experts/router.h).
  float balance_rate = 0;
  std::int64_t slots = 1;  // of a count of experts' tokens: how often it has each token
  // Shares of the learning rate, and with it of the decay, and of the decay alone (ParamRules).
  float rate = 1, decay_share = 1;
  bool adapter = false;  // a low-rank factor of a frozen matrix

  // The axis length in units of the shortest part.
  [[nodiscard]] int shard_units() const { return shard_parts - 1 + shard_lead; }
  [[nodiscard]] bool is_copy() const { return !tie.empty() && tie != name; }
  // The key of its initial values.
  [[nodiscard]] const std::string& identity() const { return tie.empty() ? name : tie; }

  friend bool operator==(const ParamSpec& a, const ParamSpec& b) {
    return a.name == b.name && a.shape == b.shape && a.kind == b.kind;
  }
};

constexpr const TensorSplit& ParamSplits::of(const ParamSpec& spec) const {
  return spec.expert ? experts : tensor;
}

struct ParamId {
  int index = -1;
};

// The shape in which a rank stores a parameter: the global shape, or (local blocks, block...) if
// `split`, that of the spec (ParamSplits::of), cuts it.
[[nodiscard]] Shape stored_shape(const ParamSpec& spec, const TensorSplit& split);
[[nodiscard]] inline bool is_split(const ParamSpec& spec, const TensorSplit& split) {
  return split.blocked() && spec.shard_axis >= 0;
}

// Visits runs of elements that are contiguous both in this rank's storage and in the whole tensor
// (both row-major). `visit(stored, logical, count)` gets the first element of each.
template <typename Visit>
void for_each_run(const ParamSpec& spec, const TensorSplit& split, Visit&& visit) {
  if (!is_split(spec, split)) {
    visit(std::int64_t{0}, std::int64_t{0}, spec.shape.count());
    return;
  }
  // Outer index (rows before the axis), part, block, and runs of `inner` elements for each unit.
  const std::int64_t axis = spec.shape[static_cast<std::size_t>(spec.shard_axis)];
  const std::int64_t outer = spec.shard_axis == 0 ? 1 : spec.shape[0];
  const std::int64_t units = spec.shard_units();
  const std::int64_t inner = spec.shape.count() / outer / units / split.blocks;
  const std::int64_t block = spec.shape.count() / split.blocks;
  TRIREME_EXPECTS(axis % (units * split.blocks) == 0, "parameter {} {}: axis {} in {} blocks",
                  spec.name, spec.shape.to_string(), spec.shard_axis, split.blocks);
  for (int b = 0; b < split.local(); ++b) {
    for (std::int64_t o = 0; o < outer; ++o) {
      std::int64_t before = o * units * inner;  // within this block
      for (std::int64_t part = 0; part < spec.shard_parts; ++part) {
        const std::int64_t run = part == 0 ? spec.shard_lead * inner : inner;
        visit(b * block + before, before * split.blocks + (split.first() + b) * run, run);
        before += run;
      }
    }
  }
}

// A matrix in a parameter, whose elements are contiguous in the whole tensor. A vector is one row,
// filters are (out, the rest), and a tensor of fused experts has one for each of them.
struct ParamMatrix {
  int tensor = 0;  // of the parameter's logical tensors
  std::int64_t first = 0, rows = 0, columns = 0;
  [[nodiscard]] std::int64_t count() const { return rows * columns; }
};
// In order; of the last one the tensor is their number - 1.
[[nodiscard]] std::vector<ParamMatrix> matrices_of(const ParamSpec& spec);

// for_each_run within each of the spec's matrices: `visit(stored, matrix, element, count)`, the
// element counted from the matrix's first.
template <typename Visit>
void for_each_matrix_run(const ParamSpec& spec, const TensorSplit& split,
                         const std::vector<ParamMatrix>& matrices, Visit&& visit) {
  for_each_run(spec, split, [&](std::int64_t stored, std::int64_t logical, std::int64_t count) {
    auto matrix = std::ranges::upper_bound(matrices, logical, {}, &ParamMatrix::first) - 1;
    for (std::int64_t done = 0; done < count; ++matrix) {
      const std::int64_t element = logical + done - matrix->first;
      const std::int64_t here = std::min(count - done, matrix->count() - element);
      visit(stored + done, static_cast<std::size_t>(matrix - matrices.begin()), element, here);
      done += here;
    }
  });
}

}  // namespace trireme
