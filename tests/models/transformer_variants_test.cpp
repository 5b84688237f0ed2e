// SPDX-License-Identifier: Apache-2.0
// One rank: a transformer computes the same function in every variant, with the same bits if the
// sums have the same order.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/device/dry/dry_device.h"
#include "tests/models/model_case.h"
#include "tests/support/cpu_fixture.h"

namespace trireme {
namespace {

using test::Bits;
using test::ModelCase;
using test::ModelResult;
using test::small_bert;
using test::small_gemma;
using test::small_gpt;
using test::small_llama;
using test::small_sinks;
using test::small_vit;
using test::TestModel;

BuildOptions training(DType compute, int blocks) {
  return {.compute = compute,
          .micro_batch = test::small_batch,
          .training = true,
          .tensor = {.ranks = 1, .rank = 0, .blocks = blocks}};
}

void expect_same_bits(const ModelResult& got, const ModelResult& expected) {
  EXPECT_EQ(got.losses, expected.losses);
  EXPECT_EQ(got.correct, expected.correct);
  EXPECT_EQ(got.gradients.size(), expected.gradients.size());
  for (const auto& [name, bits] : expected.gradients) {
    EXPECT_EQ(got.gradients.at(name), bits) << name;
    EXPECT_TRUE(std::ranges::any_of(bits, [](std::uint32_t word) { return word != 0; })) << name;
  }
}

struct Variant {
  DType compute;
  int blocks;
  bool fp8 = false;
  std::string_view family = "Gpt";
  bool adapted = false;

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
  [[nodiscard]] bool has_language_head() const {
    return !model().vit && model().options.head.is_language();
  }
  [[nodiscard]] std::string name() const {
    return fmt::format("{}{}{}{}In{}Blocks", adapted ? "Adapted" : "", family, name_of(compute),
                       fp8 ? "WithFp8" : "", blocks);
  }
};

class TransformerVariants : public test::CpuFixture, public testing::WithParamInterface<Variant> {
 protected:
  [[nodiscard]] ModelResult run(const BuildOptions& build) {
    return run(build, GetParam().model());
  }
  [[nodiscard]] ModelResult run(const BuildOptions& build, const TestModel& options,
                                bool separate_ties = false) {
    return ModelCase(*device_, *compute_, options, build, nullptr, separate_ties).run();
  }
  [[nodiscard]] static BuildOptions build() {
    BuildOptions options = training(GetParam().compute, GetParam().blocks);
    options.fp8.on = GetParam().fp8;
    if (GetParam().adapted) options.adapters = test::small_adapters;
    return options;
  }
};

TEST_P(TransformerVariants, SplitBackwardGivesTheBitsOfTheWholeOne) {
  BuildOptions split = build();
  split.split_backward = true;

  expect_same_bits(run(split), run(build()));
}

TEST_P(TransformerVariants, SplitBackwardWithoutDropoutGivesTheBitsOfTheWholeOne) {
  TestModel options = GetParam().model();
  options.options.dropout = 0;
  if (options.vit) options.vit->dropout = 0;
  BuildOptions split = build();
  split.split_backward = true;

  expect_same_bits(run(split, options), run(build(), options));
}

TEST_P(TransformerVariants, BackwardComputesNoParameterGradientWhereItIsSplit) {
  BuildOptions split = build();
  split.split_backward = true;
  ModelCase model(*device_, *compute_, GetParam().model(), split);
  const Tensor gradients = model.model().params().gradients().whole();
  device_->fill_zero(*compute_, gradients.data, gradients.bytes());
  test::CountingSink sink(model.model().params());
  Context context = model.context(0);
  context.gradients = &sink;

  model.model().forward(context);
  model.model().backward(context);

  const std::int64_t weights = model.model().params().layout().weight_elements();
  EXPECT_EQ(test::values_of<float>(gradients.range(0, weights)),
            std::vector<float>(static_cast<std::size_t>(weights), 0.0F));
  EXPECT_TRUE(sink.counts().empty());
}

TEST_P(TransformerVariants, RecomputationGivesTheSameBitsInLessMemory) {
  const ModelResult kept = run(build());
  BuildOptions selective = build(), full = build();
  selective.recompute = Recompute::selective;
  full.recompute = Recompute::full;

  const ModelResult some = run(selective), all = run(full);

  expect_same_bits(some, kept);
  expect_same_bits(all, kept);
  EXPECT_LT(some.activation_bytes, kept.activation_bytes);
  EXPECT_LT(all.activation_bytes, some.activation_bytes);
}

TEST_P(TransformerVariants, SelectiveRecomputationServesASplitBackward) {
  BuildOptions both = build();
  both.recompute = Recompute::selective;
  both.split_backward = true;

  expect_same_bits(run(both), run(build()));
}

TEST_P(TransformerVariants, ReportsEveryGradientOnceAPass) {
  for (const bool split : {false, true}) {
    for (const bool separate_ties : {false, true}) {
      BuildOptions options = build();
      options.split_backward = split;

      const ModelResult result = run(options, GetParam().model(), separate_ties);

      EXPECT_EQ(result.reports.size(), result.gradients.size());
      for (const auto& [name, count] : result.reports)
        EXPECT_EQ(count, 2) << name;
      EXPECT_EQ(result.reports.contains("head.weight"),
                GetParam().has_language_head() && !GetParam().adapted &&
                    (separate_ties || !GetParam().model().options.tied_head));
    }
  }
}

TEST_P(TransformerVariants, SeparateTiedGradientsAddUp) {
  if (!GetParam().has_language_head() || GetParam().adapted)
    GTEST_SKIP() << "nothing tied is trained";
  TransformerOptions tied = GetParam().model().options;
  tied.tied_head = true;
  const ModelResult together = run(build(), tied), apart = run(build(), tied, true);
  const Bits& whole = together.gradients.at("embedding.token.weight");
  const Bits& read = apart.gradients.at("embedding.token.weight");
  const Bits& projected = apart.gradients.at("head.weight");

  EXPECT_EQ(apart.losses, together.losses);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const float sum = std::bit_cast<float>(read[i]) + std::bit_cast<float>(projected[i]);
    EXPECT_NEAR(std::bit_cast<float>(whole[i]), sum, 1e-5 * (1 + std::abs(sum)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    DTypesAndBlocks, TransformerVariants,
    testing::Values(
        Variant{DType::f32, 1}, Variant{DType::f32, 2}, Variant{DType::f32, 4},
        Variant{DType::bf16, 1}, Variant{DType::bf16, 4}, Variant{DType::f16, 4},
        Variant{DType::bf16, 4, true}, Variant{DType::f32, 1, false, "Llama"},
        Variant{DType::f32, 2, false, "Llama"}, Variant{DType::bf16, 4, false, "Llama"},
        Variant{DType::bf16, 4, true, "Llama"}, Variant{DType::f32, 1, false, "Vit"},
        Variant{DType::f32, 1, false, "Bert"}, Variant{DType::bf16, 4, false, "Bert"},
        Variant{DType::f32, 1, false, "Sinks"}, Variant{DType::bf16, 4, false, "Sinks"},
        Variant{DType::f32, 2, false, "Sinks", true}, Variant{DType::f32, 1, false, "Experts"},
        Variant{DType::f32, 4, false, "Experts"}, Variant{DType::bf16, 2, false, "Experts"},
        Variant{DType::bf16, 4, true, "Experts"}, Variant{DType::f32, 1, false, "Gemma"},
        Variant{DType::f32, 1, false, "Olmo"}, Variant{DType::bf16, 4, false, "Olmo"},
        Variant{DType::bf16, 4, true, "Olmo"}, Variant{DType::f32, 2, false, "Olmo", true},
        Variant{DType::bf16, 4, false, "Gemma"}, Variant{DType::bf16, 4, true, "Gemma"},
        Variant{DType::bf16, 4, false, "Vit"}, Variant{DType::bf16, 4, true, "Vit"},
        Variant{DType::f32, 1, false, "BertClasses"}, Variant{DType::bf16, 4, false, "BertTokens"},
        Variant{DType::f32, 4, false, "BertLabels"}, Variant{DType::f32, 1, false, "LlamaValues"},
        Variant{DType::bf16, 4, false, "LlamaClasses"}, Variant{DType::f32, 1, false, "Gpt", true},
        Variant{DType::bf16, 4, false, "Llama", true}, Variant{DType::bf16, 4, true, "Gpt", true}),
    [](const auto& info) { return info.param.name(); });

// Not with fp8, whose scales are per micro-batch.
class TransformerDocuments : public TransformerVariants {};

// Losses and gradients of the second of three documents do not depend on the others' tokens.
TEST_P(TransformerDocuments, ADocumentChangesNoBitOfAnother) {
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    BuildOptions options = build();
    options.recompute = recompute;
    options.split_backward = recompute == Recompute::selective;
    ModelCase model(*device_, *compute_, GetParam().model(), options);
    model.separate({3, 5, 4}, 1);
    const ModelResult before = model.run();

    model.change_other_tokens(1);

    expect_same_bits(model.run(), before);
  }
}

TEST_P(TransformerDocuments, JoinedDocumentsAttendToEachOther) {
  ModelCase model(*device_, *compute_, GetParam().model(), build());
  model.separate({3, 5, 4}, 1);
  model.forget_documents();
  const ModelResult before = model.run();

  model.change_other_tokens(1, /*only_behind=*/true);
  expect_same_bits(model.run(), before);  // they are targets that do not count
  model.change_other_tokens(1);
  EXPECT_NE(model.run().losses, before.losses);
}

INSTANTIATE_TEST_SUITE_P(DTypesAndBlocks, TransformerDocuments,
                         testing::Values(Variant{DType::f32, 1}, Variant{DType::bf16, 4},
                                         Variant{DType::f32, 4, false, "Llama"},
                                         Variant{DType::bf16, 1, false, "Llama"},
                                         Variant{DType::f32, 2, false, "Gemma"},
                                         Variant{DType::f32, 2, false, "Olmo"},
                                         Variant{DType::f32, 2, false, "Sinks"}),
                         [](const auto& info) { return info.param.name(); });

class GptFp8 : public test::CpuFixture,
               public testing::WithParamInterface<std::tuple<int, Fp8Recipe>> {
 protected:
  [[nodiscard]] static BuildOptions build(bool fp8 = true) {
    BuildOptions options = training(DType::bf16, std::get<0>(GetParam()));
    options.fp8.on = fp8;
    options.fp8.recipe = std::get<1>(GetParam());
    return options;
  }
};

// A product of random operands has an error of a few percent; errors of successive layers add up.
TEST_P(GptFp8, GradientsHaveTheDirectionOfBf16Gradients) {
  ModelCase wide(*device_, *compute_, small_gpt, build(/*fp8=*/false));
  ModelCase narrow(*device_, *compute_, small_gpt, build());

  const ModelResult expected = wide.run(), got = narrow.run();

  EXPECT_NE(got.losses, expected.losses);
  EXPECT_NEAR(got.loss, expected.loss, 0.02 * expected.loss);
  for (const auto& [name, bits] : expected.gradients) {
    double distance = 0, length = 0;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      const auto a = static_cast<double>(std::bit_cast<float>(got.gradients.at(name)[i]));
      const auto b = static_cast<double>(std::bit_cast<float>(bits[i]));
      distance += (a - b) * (a - b);
      length += b * b;
    }
    EXPECT_LT(std::sqrt(distance), 0.2 * std::sqrt(length)) << name;
  }
}

TEST_P(GptFp8, CachedWeightsGiveTheBitsOfRequantisedOnes) {
  for (const bool split : {false, true}) {
    BuildOptions options = build();
    options.split_backward = split;
    const ModelResult expected = ModelCase(*device_, *compute_, small_gpt, options).run();
    options.fp8.keeps_weights = true;

    expect_same_bits(ModelCase(*device_, *compute_, small_gpt, options).run(), expected);
  }
}

TEST_P(GptFp8, CachedWeightsAreRequantisedAfterAChange) {
  BuildOptions options = build();
  options.fp8.keeps_weights = true;
  ModelCase model(*device_, *compute_, small_gpt, options);
  Context context = model.context(0);
  const auto losses = [&] {
    model.model().forward(context);
    return test::values_of<float>(context.losses);
  };
  const std::vector<float> expected = losses();
  std::memset(context.cache->buffer().data(), 0xff, context.cache->bytes());  // NaNs

  context.weights_changed = false;
  EXPECT_THAT(losses(), testing::Contains(testing::IsNan()));
  context.weights_changed = true;
  EXPECT_EQ(losses(), expected);
}

INSTANTIATE_TEST_SUITE_P(BlocksAndRecipes, GptFp8,
                         testing::Combine(testing::Values(1, 4),
                                          testing::Values(Fp8Recipe::tensor, Fp8Recipe::blockwise,
                                                          Fp8Recipe::mxfp8)),
                         [](const auto& info) {
                           return fmt::format("{}In{}Blocks", name_of(std::get<1>(info.param)),
                                              std::get<0>(info.param));
                         });

class TransformerBlocks : public test::CpuFixture, public testing::WithParamInterface<Variant> {};

TEST_P(TransformerBlocks, AgreeWithWholeLayers) {
  ModelCase whole(*device_, *compute_, GetParam().model(), training(DType::f32, 1));
  ModelCase blocked(*device_, *compute_, GetParam().model(),
                    training(DType::f32, GetParam().blocks));

  const ModelResult expected = whole.run(), got = blocked.run();

  EXPECT_NEAR(got.loss, expected.loss, 1e-5 * expected.loss);
  EXPECT_EQ(got.correct, expected.correct);
  for (const ParamSpec& spec : blocked.model().params().layout().specs()) {
    const Bits &stored = got.gradients.at(spec.name), &logical = expected.gradients.at(spec.name);
    double distance = 0, length = 0;
    for_each_run(
        spec, blocked.model().params().layout().split(spec),
        [&](std::int64_t from, std::int64_t to, std::int64_t count) {
          for (std::int64_t i = 0; i < count; ++i) {
            const float a = std::bit_cast<float>(stored[static_cast<std::size_t>(from + i)]);
            const float b = std::bit_cast<float>(logical[static_cast<std::size_t>(to + i)]);
            distance += static_cast<double>((a - b) * (a - b));
            length += static_cast<double>(b * b);
          }
        });
    EXPECT_LT(std::sqrt(distance), 1e-5 * std::sqrt(length)) << spec.name;
    EXPECT_GT(length, 0) << spec.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Counts, TransformerBlocks,
    testing::Values(Variant{DType::f32, 2}, Variant{DType::f32, 4},
                    Variant{DType::f32, 2, false, "Llama"}, Variant{DType::f32, 4, false, "Llama"},
                    Variant{DType::f32, 4, false, "Vit"}, Variant{DType::f32, 4, false, "Gemma"},
                    Variant{DType::f32, 4, false, "Olmo"}, Variant{DType::f32, 4, false, "Experts"},
                    Variant{DType::f32, 4, false, "Sinks"}, Variant{DType::f32, 4, false, "Bert"}),
    [](const auto& info) { return info.param.name(); });

TEST_F(TransformerVariants, EvaluationNeitherDropsNorWritesGradients) {
  TransformerOptions plain = small_gpt;
  plain.dropout = 0;
  BuildOptions evaluating = training(DType::f32, 2);
  evaluating.training = false;
  ModelCase without(*device_, *compute_, plain, evaluating);
  ModelCase with(*device_, *compute_, small_gpt, evaluating);
  const Context first = without.context(1), second = with.context(2);

  without.model().forward(first);
  with.model().forward(second);

  EXPECT_EQ(test::values_of<float>(first.losses), test::values_of<float>(second.losses));
}

double flops_of(const TransformerOptions& options) {
  const auto dry = make_dry_device(DeviceType::cpu);
  const Buffer memory(*dry, 2 * 12 * sizeof(std::int32_t), MemoryKind::device);
  const Tensor tokens = memory.view(DType::i32, Shape{2, 12}), ids = memory.view(DType::i64, {2});
  double sum = 0;
  for (const double flops :
       forward_flops(transformer_chain(options), {.micro_batch = 2, .training = true}, *dry,
                     {.inputs = tokens, .targets = tokens, .sample_ids = ids, .epochs = ids}))
    sum += flops;
  return sum;
}

// Two for each weight and token, and scores and values of the keys that are seen.
TEST(TransformerFlops, CountGroupedQueriesGatesAndTheWindow) {
  TransformerOptions options = small_llama;
  constexpr double tokens = 2 * 12, hidden = 32, queries = 8 * 6, keys = 4 * 6, wide = 44;
  const double weights =
      2 * (hidden * (queries + 2 * keys) + queries * hidden + 3 * wide * hidden) + 64 * hidden;
  const auto attention = [&](double seen) { return 2 * tokens * 4 * queries * seen; };

  EXPECT_DOUBLE_EQ(flops_of(options), 2 * tokens * weights + attention((28 + 5 * 7) / 12.0));
  options.window = 0;
  EXPECT_DOUBLE_EQ(flops_of(options), 2 * tokens * weights + attention(6.5));
  options.causal = false;
  EXPECT_DOUBLE_EQ(flops_of(options), 2 * tokens * weights + attention(12));
}

}  // namespace
}  // namespace trireme
