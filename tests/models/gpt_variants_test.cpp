// SPDX-License-Identifier: Apache-2.0
// One rank: however a GPT is built, it computes the same function; where the sums have the same
// order, the same bits.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/models/gpt_case.h"
#include "tests/support/cpu_fixture.h"

namespace trireme {
namespace {

using test::Bits;
using test::GptCase;
using test::GptResult;
using test::small_gpt;

BuildOptions training(DType compute, int blocks) {
  return {.compute = compute,
          .micro_batch = test::small_batch,
          .training = true,
          .tensor = {.ranks = 1, .rank = 0, .blocks = blocks}};
}

void expect_same_bits(const GptResult& got, const GptResult& expected) {
  EXPECT_EQ(got.losses, expected.losses);
  EXPECT_EQ(got.hits, expected.hits);
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
};

class GptVariants : public test::CpuFixture, public testing::WithParamInterface<Variant> {
 protected:
  [[nodiscard]] GptResult run(const BuildOptions& build, const GptOptions& options = small_gpt,
                              bool separate_ties = false) {
    return GptCase(*device_, *compute_, options, build, nullptr, separate_ties).run();
  }
  [[nodiscard]] static BuildOptions build() {
    BuildOptions options = training(GetParam().compute, GetParam().blocks);
    options.fp8 = GetParam().fp8;
    return options;
  }
};

TEST_P(GptVariants, SplitBackwardGivesTheBitsOfTheWholeOne) {
  BuildOptions split = build();
  split.split_backward = true;

  expect_same_bits(run(split), run(build()));
}

TEST_P(GptVariants, SplitBackwardWithoutDropoutGivesTheBitsOfTheWholeOne) {
  GptOptions options = small_gpt;
  options.dropout = 0;
  BuildOptions split = build();
  split.split_backward = true;

  expect_same_bits(run(split, options), run(build(), options));
}

TEST_P(GptVariants, BackwardComputesNoParameterGradientWhereItIsSplit) {
  BuildOptions split = build();
  split.split_backward = true;
  GptCase gpt(*device_, *compute_, small_gpt, split);
  const Tensor gradients = gpt.model().params().gradients().whole();
  device_->fill_zero(*compute_, gradients.data, gradients.bytes());
  test::CountingSink sink(gpt.model().params());
  Context context = gpt.context(0);
  context.gradients = &sink;

  gpt.model().forward(context);
  gpt.model().backward(context);

  EXPECT_EQ(test::values_of<float>(gradients),
            std::vector<float>(static_cast<std::size_t>(gradients.count()), 0.0F));
  EXPECT_TRUE(sink.counts().empty());
}

TEST_P(GptVariants, RecomputationGivesTheSameBitsInLessMemory) {
  const GptResult kept = run(build());
  BuildOptions selective = build(), full = build();
  selective.recompute = Recompute::selective;
  full.recompute = Recompute::full;

  const GptResult some = run(selective), all = run(full);

  expect_same_bits(some, kept);
  expect_same_bits(all, kept);
  EXPECT_LT(some.activation_bytes, kept.activation_bytes);
  EXPECT_LT(all.activation_bytes, some.activation_bytes);
}

TEST_P(GptVariants, SelectiveRecomputationServesASplitBackward) {
  BuildOptions both = build();
  both.recompute = Recompute::selective;
  both.split_backward = true;

  expect_same_bits(run(both), run(build()));
}

TEST_P(GptVariants, ReportsEveryGradientOnceAPass) {
  for (const bool split : {false, true}) {
    for (const bool separate_ties : {false, true}) {
      BuildOptions options = build();
      options.split_backward = split;

      const GptResult result = run(options, small_gpt, separate_ties);

      EXPECT_EQ(result.reports.size(), result.gradients.size());
      for (const auto& [name, count] : result.reports)
        EXPECT_EQ(count, 2) << name;
      EXPECT_EQ(result.reports.contains("head.weight"), separate_ties);
    }
  }
}

TEST_P(GptVariants, TiesKeptApartHaveGradientsThatAddUp) {
  const GptResult together = run(build()), apart = run(build(), small_gpt, true);
  const Bits& whole = together.gradients.at("embedding.token.weight");
  const Bits& read = apart.gradients.at("embedding.token.weight");
  const Bits& projected = apart.gradients.at("head.weight");

  EXPECT_EQ(apart.losses, together.losses);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const float sum = std::bit_cast<float>(read[i]) + std::bit_cast<float>(projected[i]);
    EXPECT_NEAR(std::bit_cast<float>(whole[i]), sum, 1e-5 * (1 + std::abs(sum)));
  }
}

INSTANTIATE_TEST_SUITE_P(DTypesAndBlocks, GptVariants,
                         testing::Values(Variant{DType::f32, 1}, Variant{DType::f32, 2},
                                         Variant{DType::f32, 4}, Variant{DType::bf16, 1},
                                         Variant{DType::bf16, 4}, Variant{DType::f16, 4},
                                         Variant{DType::bf16, 4, true}),
                         [](const auto& info) {
                           return fmt::format("{}{}In{}Blocks", name_of(info.param.compute),
                                              info.param.fp8 ? "WithFp8" : "", info.param.blocks);
                         });

class GptFp8 : public test::CpuFixture, public testing::WithParamInterface<int> {};

// A product of random operands is off by a few hundredths; layers after one another add up.
TEST_P(GptFp8, GradientsPointWhereThoseOfBf16Do) {
  BuildOptions build = training(DType::bf16, GetParam());
  GptCase wide(*device_, *compute_, small_gpt, build);
  build.fp8 = true;
  GptCase narrow(*device_, *compute_, small_gpt, build);

  const GptResult expected = wide.run(), got = narrow.run();

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

INSTANTIATE_TEST_SUITE_P(Blocks, GptFp8, testing::Values(1, 4));

class GptBlocks : public test::CpuFixture, public testing::WithParamInterface<int> {};

TEST_P(GptBlocks, ComputeWhatTheWholeLayersCompute) {
  GptCase whole(*device_, *compute_, small_gpt, training(DType::f32, 1));
  GptCase blocked(*device_, *compute_, small_gpt, training(DType::f32, GetParam()));

  const GptResult expected = whole.run(), got = blocked.run();

  EXPECT_NEAR(got.loss, expected.loss, 1e-5 * expected.loss);
  EXPECT_EQ(got.hits, expected.hits);
  for (const ParamSpec& spec : blocked.model().params().layout().specs()) {
    const Bits &stored = got.gradients.at(spec.name), &logical = expected.gradients.at(spec.name);
    double distance = 0, length = 0;
    for_each_run(
        spec, blocked.model().params().layout().split(),
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

INSTANTIATE_TEST_SUITE_P(Counts, GptBlocks, testing::Values(2, 4));

TEST_F(GptVariants, EvaluationNeitherDropsNorWritesGradients) {
  GptOptions plain = small_gpt;
  plain.dropout = 0;
  BuildOptions evaluating = training(DType::f32, 2);
  evaluating.training = false;
  GptCase without(*device_, *compute_, plain, evaluating);
  GptCase with(*device_, *compute_, small_gpt, evaluating);
  const Context first = without.context(1), second = with.context(2);

  without.model().forward(first);
  with.model().forward(second);

  EXPECT_EQ(test::values_of<float>(first.losses), test::values_of<float>(second.losses));
}

TEST(GptFlops, ASplitRankCountsItsShare) {
  const auto flops = [](const TensorSplit& tensor, bool sequence) {
    ParamStore params(tensor);
    Blueprint blueprint(params, DeviceType::cpu,
                        {.micro_batch = 2, .tensor = tensor, .sequence = sequence});
    double sum = 0;
    for (const ChainLayer& layer : gpt_chain(small_gpt))
      sum += layer.make(blueprint)->forward_flops();
    return sum;
  };

  const double whole = flops({.ranks = 1, .rank = 0, .blocks = 1}, false);

  EXPECT_EQ(flops({.ranks = 1, .rank = 0, .blocks = 4}, false), whole);
  EXPECT_EQ(flops({.ranks = 4, .rank = 1, .blocks = 4}, false), whole / 4);
  EXPECT_EQ(flops({.ranks = 2, .rank = 1, .blocks = 4}, true), whole / 2);
}

}  // namespace
}  // namespace trireme
