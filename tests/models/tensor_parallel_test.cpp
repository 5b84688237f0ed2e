// SPDX-License-Identifier: Apache-2.0
// Transformers over all ranks as tensor ranks, against one rank with the same tensor blocks.
#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "models/gpt/gpt.h"
#include "tests/models/model_case.h"
#include "tests/support/mpi_test.h"

namespace trireme {
namespace {

using test::ModelCase;
using test::ModelResult;
using test::small_bert;
using test::small_gemma;
using test::small_gpt;
using test::small_llama;
using test::small_sinks;
using test::small_vit;
using test::TestModel;

constexpr int blocks = 4;

struct Mode {
  DType compute = DType::f32;
  bool sequence = false;
  bool split_backward = false;
  Recompute recompute = Recompute::none;
  std::string_view family = "Gpt";
  bool adapted = false;
  bool rounded = false;  // sums over ranks
  int chunks = 1;
  std::optional<Fp8Recipe> fp8{};

  [[nodiscard]] TestModel model() const {
    if (family == "Vit") return small_vit;
    if (const auto headed = test::small_head(family)) return *headed;
    if (family == "Bert") return small_bert;
    if (family == "Gemma") return small_gemma;
    if (family == "Olmo") return test::small_olmo;
    if (family == "Experts") return test::small_experts;
    if (family == "Sinks") return small_sinks;
    return family == "Llama" ? small_llama : small_gpt;
  }
};

class TensorParallel : public test::MpiTest {
 protected:
  [[nodiscard]] BuildOptions build(const Mode& mode) const {
    return {.compute = mode.compute,
            .micro_batch = test::small_batch,
            .training = true,
            .recompute = mode.recompute,
            .split_backward = mode.split_backward,
            .tensor = {.ranks = size(), .rank = rank(), .blocks = blocks},
            .sums = {.rounded = mode.rounded, .chunks = mode.chunks, .sequence = mode.sequence},
            .experts = {.split = {.ranks = size(), .rank = rank(), .blocks = size()}},
            .fp8 = {.on = mode.fp8.has_value(), .recipe = mode.fp8.value_or(Fp8Recipe::tensor)},
            .adapters = mode.adapted ? test::small_adapters : AdapterOptions{}};
  }
  [[nodiscard]] ModelResult run_alone(const Mode& mode) {
    BuildOptions alone = build(
        {.compute = mode.compute, .adapted = mode.adapted, .chunks = mode.chunks, .fp8 = mode.fp8});
    alone.tensor = {.ranks = 1, .rank = 0, .blocks = blocks};
    alone.experts = {};
    const auto single = make_single_communicator();
    const TensorGroup group(device(), *single, comm_stream());
    return ModelCase(device(), compute(), mode.model(), alone, &group).run();
  }
};

class TensorParallelBits : public TensorParallel, public testing::WithParamInterface<Mode> {};

TEST_P(TensorParallelBits, AreThoseOfOneRankWithTheSameBlocks) {
  const ModelResult expected = run_alone(GetParam());
  const TensorGroup group(device(), world(), comm_stream());
  ModelCase split(device(), compute(), GetParam().model(), build(GetParam()), &group);

  const ModelResult got = split.run();

  EXPECT_EQ(got.losses, expected.losses);
  EXPECT_EQ(got.correct, expected.correct);
  EXPECT_EQ(got.gradients.size(), expected.gradients.size());
  for (const ParamSpec& spec : split.model().params().layout().specs()) {
    if (spec.kind == ParamKind::frozen) continue;
    EXPECT_EQ(got.gradients.at(spec.name),
              test::part_of(expected.gradients.at(spec.name), spec,
                            split.model().params().layout().split(spec)))
        << spec.name;
    // The last rows of a table without a head belong to no token of the texts.
    const bool padding = spec.name == "embedding.token.weight" && spec.tie.empty();
    EXPECT_TRUE(padding || std::ranges::any_of(got.gradients.at(spec.name),
                                               [](auto word) { return word != 0; }))
        << spec.name;
    EXPECT_EQ(got.reports.at(spec.name), 2) << spec.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Modes, TensorParallelBits,
    testing::Values(
        Mode{}, Mode{.sequence = true}, Mode{.compute = DType::bf16},
        Mode{.compute = DType::bf16, .sequence = true}, Mode{.split_backward = true},
        Mode{.compute = DType::bf16, .sequence = true, .split_backward = true},
        Mode{.sequence = true, .recompute = Recompute::full},
        Mode{.recompute = Recompute::selective}, Mode{.family = "Llama"},
        Mode{.compute = DType::bf16, .sequence = true, .split_backward = true, .family = "Llama"},
        Mode{.sequence = true, .recompute = Recompute::selective, .family = "Llama"},
        Mode{.family = "Gemma"}, Mode{.family = "Olmo"},
        Mode{.compute = DType::bf16, .sequence = true, .split_backward = true, .family = "Olmo"},
        Mode{.sequence = true, .recompute = Recompute::selective, .family = "Olmo"},
        Mode{.compute = DType::bf16, .sequence = true, .split_backward = true, .family = "Gemma"},
        Mode{.sequence = true, .recompute = Recompute::selective, .family = "Gemma"},
        Mode{.family = "Experts"}, Mode{.sequence = true, .family = "Experts"},
        Mode{.split_backward = true, .family = "Experts"},
        Mode{.compute = DType::bf16, .sequence = true, .split_backward = true, .family = "Experts"},
        Mode{.sequence = true, .recompute = Recompute::selective, .family = "Experts"},
        Mode{.compute = DType::bf16, .recompute = Recompute::full, .family = "Experts"},
        Mode{.family = "Sinks"},
        Mode{.compute = DType::bf16, .sequence = true, .split_backward = true, .family = "Sinks"},
        Mode{.family = "Bert"},
        Mode{.compute = DType::bf16, .sequence = true, .split_backward = true, .family = "Bert"},
        Mode{.sequence = true, .recompute = Recompute::selective, .family = "Bert"},
        Mode{.family = "BertClasses"},
        Mode{.sequence = true, .split_backward = true, .family = "BertClasses"},
        Mode{.compute = DType::bf16, .sequence = true, .family = "BertTokens"},
        Mode{.split_backward = true, .family = "BertTokens"},
        Mode{.sequence = true, .recompute = Recompute::full, .family = "LlamaValues"},
        Mode{.sequence = true, .split_backward = true, .family = "LlamaClasses"},
        Mode{.family = "BertLabels"}, Mode{.family = "Vit"},
        Mode{.sequence = true, .split_backward = true, .family = "Vit"},
        Mode{.compute = DType::bf16,
             .sequence = true,
             .recompute = Recompute::full,
             .family = "Vit"},
        Mode{.chunks = 2}, Mode{.compute = DType::bf16, .recompute = Recompute::full, .chunks = 4},
        Mode{.split_backward = true, .family = "Llama", .chunks = 4},
        Mode{.compute = DType::bf16, .family = "Bert", .chunks = 2}, Mode{.adapted = true},
        Mode{.compute = DType::bf16,
             .sequence = true,
             .split_backward = true,
             .family = "Llama",
             .adapted = true},
        Mode{.sequence = true, .recompute = Recompute::full, .family = "Llama", .adapted = true},
        Mode{.adapted = true, .chunks = 2},
        Mode{.compute = DType::bf16,
             .split_backward = true,
             .family = "Llama",
             .adapted = true,
             .chunks = 4},
        Mode{.compute = DType::bf16, .sequence = true, .fp8 = Fp8Recipe::tensor},
        Mode{.compute = DType::bf16, .chunks = 2, .fp8 = Fp8Recipe::tensor},
        Mode{.compute = DType::bf16,
             .split_backward = true,
             .family = "Llama",
             .chunks = 4,
             .fp8 = Fp8Recipe::tensor},
        Mode{.compute = DType::bf16, .adapted = true, .chunks = 2, .fp8 = Fp8Recipe::tensor},
        Mode{.compute = DType::bf16, .sequence = true, .fp8 = Fp8Recipe::blockwise},
        Mode{.compute = DType::bf16, .split_backward = true, .fp8 = Fp8Recipe::mxfp8},
        Mode{.compute = DType::bf16, .family = "Llama", .chunks = 2, .fp8 = Fp8Recipe::blockwise},
        Mode{.compute = DType::bf16,
             .split_backward = true,
             .chunks = 2,
             .fp8 = Fp8Recipe::blockwise},
        Mode{.compute = DType::bf16, .adapted = true, .chunks = 4, .fp8 = Fp8Recipe::mxfp8},
        Mode{.compute = DType::bf16, .chunks = 4, .fp8 = Fp8Recipe::mxfp8}),
    [](const auto& info) {
      const Mode& mode = info.param;
      return fmt::format("{}{}{}{}{}{}{}{}", mode.adapted ? "Adapted" : "", mode.family,
                         name_of(mode.compute), mode.sequence ? "Sequence" : "",
                         mode.split_backward ? "SplitBackward" : "",
                         mode.recompute == Recompute::none        ? ""
                         : mode.recompute == Recompute::selective ? "Selective"
                                                                  : "Full",
                         mode.chunks > 1 ? fmt::format("Chunks{}", mode.chunks) : "",
                         mode.fp8 ? name_of(*mode.fp8) : "");
    });

// The cost of rounded sums on top of bf16: distance of all gradients from those of f32, relative to
// their norm.
TEST_F(TensorParallel, RoundedSumsAreAsCloseToSinglePrecisionAsExactOnes) {
  const ModelResult expected = run_alone({});
  const TensorGroup group(device(), world(), comm_stream());
  const auto distance = [&](const Mode& mode) {
    ModelCase split(device(), compute(), mode.model(), build(mode), &group);
    const ModelResult got = split.run();
    EXPECT_NEAR(got.loss, expected.loss, 1e-2 * expected.loss);
    double difference = 0, size = 0;
    for (const ParamSpec& spec : split.model().params().layout().specs()) {
      const auto wanted = test::part_of(expected.gradients.at(spec.name), spec, build(mode).tensor);
      const auto& here = got.gradients.at(spec.name);
      for (std::size_t i = 0; i < here.size(); ++i) {
        const double a = std::bit_cast<float>(here[i]), b = std::bit_cast<float>(wanted[i]);
        difference += (a - b) * (a - b);
        size += b * b;
      }
    }
    return std::sqrt(difference / size);
  };
  for (const bool sequence : {false, true}) {
    const double exact = distance({.compute = DType::bf16, .sequence = sequence});
    const double rounded =
        distance({.compute = DType::bf16, .sequence = sequence, .rounded = true});

    EXPECT_GT(exact, 0);
    EXPECT_LT(exact, 0.02);
    EXPECT_LT(rounded, 1.5 * exact) << "sequence " << sequence;
  }
  EXPECT_EQ(distance({.rounded = true}), 0) << "nothing to round in f32";
}

TEST_F(TensorParallel, KeepsLessOfSplitTensors) {
  if (size() == 1) GTEST_SKIP() << "nothing is split on one rank";
  const TensorGroup group(device(), world(), comm_stream());
  const auto use = [&](const BuildOptions& options) {
    ModelCase gpt(device(), compute(), small_gpt, options, &group);
    return std::pair(gpt.model().activation_bytes(), gpt.model().params().layout().elements());
  };
  BuildOptions alone = build({});
  alone.tensor = {.ranks = 1, .rank = 0, .blocks = blocks};

  const auto [whole, whole_elements] = use(alone);
  const auto [part, part_elements] = use(build({}));
  const auto [sequence, sequence_elements] = use(build({.sequence = true}));

  EXPECT_LT(part, whole);
  EXPECT_LT(sequence, part);
  EXPECT_LT(part_elements, whole_elements * 2 / size());
  EXPECT_EQ(sequence_elements, part_elements);
}

// Bytes of whole logical tensors that each verb moves in one forward and backward.
class TensorParallelVolume : public TensorParallel {
 protected:
  [[nodiscard]] CommStats traffic(std::int64_t layers, const Mode& mode) {
    TransformerOptions options = small_gpt;
    options.layers = layers;
    options.dropout = 0;
    const TensorGroup group(device(), world(), comm_stream());
    ModelCase gpt(device(), compute(), options, build(mode), &group);
    const CommStats before = world().stats();
    static_cast<void>(gpt.run(1));
    CommStats moved = world().stats();
    for (std::size_t i = 0; i < verb_count; ++i) {
      moved.verbs[i].calls -= before.verbs[i].calls;
      moved.verbs[i].bytes -= before.verbs[i].bytes;
    }
    return moved;
  }
  // For one block: the difference made by a second block.
  [[nodiscard]] VerbStats of_block(Verb verb, const Mode& mode) {
    const VerbStats two = traffic(2, mode)[verb];
    const VerbStats one = traffic(1, mode)[verb];
    return {two.calls - one.calls, two.bytes - one.bytes};
  }

  static constexpr std::uint64_t tokens = test::small_batch * 12;
  static constexpr std::uint64_t hidden = 32;
};

// Megatron-LM: two all-reduces of (B, T, C) forward (after attention and MLP) and two backward
// (before them). Sums stay f32 in either compute dtype, unless rounding is allowed.
TEST_F(TensorParallelVolume, OfABlockIsFourAllReduces) {
  if (size() == 1) GTEST_SKIP() << "one rank sends nothing";
  for (const Mode& mode :
       {Mode{}, Mode{.compute = DType::bf16}, Mode{.compute = DType::bf16, .rounded = true}}) {
    EXPECT_EQ(of_block(Verb::all_reduce, mode),
              (VerbStats{.calls = 4, .bytes = 4 * tokens * hidden * (mode.rounded ? 2 : 4)}));
    EXPECT_EQ(of_block(Verb::all_gather, mode), VerbStats{});
    EXPECT_EQ(of_block(Verb::reduce_scatter, mode), VerbStats{});
  }
}

// In both directions.
TEST_F(TensorParallelVolume, OfABlockIsAsManyBytesInChunks) {
  if (size() == 1) GTEST_SKIP() << "one rank sends nothing";
  for (const Mode& mode : {Mode{.chunks = 2}, Mode{.compute = DType::bf16, .chunks = 4}}) {
    EXPECT_EQ(of_block(Verb::all_reduce, mode),
              (VerbStats{.calls = 4U * static_cast<std::uint64_t>(mode.chunks),
                         .bytes = 4 * tokens * hidden * 4}));
  }
}

// Korthikanti et al.: every all-reduce becomes a reduce-scatter and an all-gather with the same
// total volume. Gathers use the compute dtype. The norms add their two vectors.
TEST_F(TensorParallelVolume, OfABlockIsTheSameWithSplitSequences) {
  if (size() == 1) GTEST_SKIP() << "one rank sends nothing";
  for (const Mode& mode : {Mode{.sequence = true}, Mode{.compute = DType::bf16, .sequence = true},
                           Mode{.compute = DType::bf16, .sequence = true, .rounded = true}}) {
    EXPECT_EQ(of_block(Verb::reduce_scatter, mode),
              (VerbStats{.calls = 4, .bytes = 4 * tokens * hidden * (mode.rounded ? 2 : 4)}));
    EXPECT_EQ(of_block(Verb::all_gather, mode),
              (VerbStats{.calls = 4, .bytes = 4 * tokens * hidden * size_of(mode.compute)}));
    EXPECT_EQ(of_block(Verb::all_reduce, mode),
              (VerbStats{.calls = 2, .bytes = 2 * 2 * hidden * 4}));
  }
}

// Embedding: one sum of (B, T, C). Head: maxima and sums of rows instead of logits, and one sum of
// (B, T, C) backward.
TEST_F(TensorParallelVolume, OfEmbeddingAndHeadHasNoLogits) {
  if (size() == 1) GTEST_SKIP() << "one rank sends nothing";
  const VerbStats block = of_block(Verb::all_reduce, {});
  const VerbStats all = traffic(1, {})[Verb::all_reduce];
  constexpr std::uint64_t row_statistics = tokens * (4 + 4 * 8);

  EXPECT_EQ(all.calls - block.calls, 4U);
  EXPECT_EQ(all.bytes - block.bytes, 2 * tokens * hidden * 4 + row_statistics);
}

TEST_F(TensorParallel, RefusesRowsThatBlocksDoNotDivide) {
  TransformerOptions options = small_gpt;
  options.context = 11;

  EXPECT_THROW(ModelCase(device(), compute(), options, build({})), Error);
}

}  // namespace
}  // namespace trireme
