// SPDX-License-Identifier: Apache-2.0
// Passes over a cache against passes over whole texts: the same logits at every position.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/models/model_case.h"
#include "tests/support/cpu_fixture.h"

namespace trireme {
namespace {

using namespace test;

constexpr std::int64_t samples = 2, capacity = 12;  // of the models in model_case.h

TransformerOptions with_rope(ops::RopeScaling scaling) {
  TransformerOptions options = small_llama;
  options.dropout = 0;
  options.window = 0;
  options.soft_cap = 0;
  options.qk_norm = false;
  options.rope.scaling = scaling;
  options.rope.high_freq_factor = 32;
  return options;
}

class Decoding : public CpuFixture {
 protected:
  // (rows, vocabulary) logits of the head, whose class blocks are stored one after another.
  static std::vector<float> logits(const Model& model, const Context& context, std::int64_t row) {
    const Tensor all = context(model.head().logits);
    const std::int64_t rows = model.head().targets, width = all.shape.back();
    std::vector<float> values;
    for (std::int64_t block = 0; block < all.count() / (rows * width); ++block) {
      for (std::int64_t i = 0; i < width; ++i) {
        const std::int64_t at = (block * rows + row) * width + i;
        values.push_back(all.dtype == DType::f32 ? all.as<float>()[at]
                                                 : static_cast<float>(all.as<bf16>()[at]));
      }
    }
    values.resize(50);
    return values;
  }

  // Both samples in pieces of these lengths, the second offset by one piece.
  void expect_logits_of_whole_texts(const TransformerOptions& options, BuildOptions build,
                                    float tolerance) {
    ModelCase whole(*device_, *compute_, options, build);
    const Context all = whole.context(0);
    whole.model().forward(all);
    const auto* const tokens = all.batch.inputs.as<std::int32_t>();

    build.decode = {.rows = 5, .capacity = capacity};
    ModelCase wide(*device_, *compute_, options, build);
    build.decode.rows = 1;
    const Chain chain = transformer_chain(options);
    Model narrow(wide.model(), chain, build, {}, {});
    EXPECT_EQ(narrow.cache_bytes(), 0U);
    wide.model().forget(*compute_);

    std::int64_t known[samples] = {0, 0};
    const std::int64_t pieces[][samples] = {{5, 0}, {3, 5}, {1, 1}, {1, 1}, {1, 1}, {1, 0}, {0, 4}};
    for (const auto& counts : pieces) {
      const bool one = counts[0] <= 1 && counts[1] <= 1;
      Model& model = one ? narrow : wide.model();
      const std::int64_t rows = one ? 1 : 5;
      std::vector<std::int32_t> inputs(static_cast<std::size_t>(samples * rows), 0), spans, last;
      for (std::int64_t b = 0; b < samples; ++b) {
        std::copy_n(tokens + b * capacity + known[b], counts[b], inputs.begin() + b * rows);
        spans.insert(spans.end(),
                     {static_cast<std::int32_t>(known[b]), static_cast<std::int32_t>(counts[b])});
        last.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(counts[b] - 1, 0)));
      }
      const Batch batch{
          {reinterpret_cast<std::byte*>(inputs.data()), DType::i32, {samples, rows}}, {}, {}, {}};
      const DecodePass decode{
          {reinterpret_cast<std::byte*>(spans.data()), DType::i32, {samples, 2}}, last};
      Context context = model.context(*compute_, batch, /*training=*/false);
      context.decode = &decode;
      model.forward(context);
      for (std::int64_t b = 0; b < samples; ++b) {
        if (counts[b] == 0) continue;
        known[b] += counts[b];
        const auto expected = logits(whole.model(), all, b * capacity + known[b] - 1);
        const auto here = logits(model, context, b);
        for (std::size_t i = 0; i < here.size(); ++i)
          ASSERT_NEAR(here[i], expected[i], tolerance) << "sample " << b << ", " << known[b];
      }
    }
    EXPECT_EQ(known[0], capacity);
    EXPECT_EQ(known[1], capacity);
  }

  void expect_in_all_precisions(const TransformerOptions& options) {
    for (const int blocks : {1, 2}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(fmt::format("{} in {} blocks", name_of(dtype), blocks));
        expect_logits_of_whole_texts(
            options, {.compute = dtype, .micro_batch = samples, .tensor = {.blocks = blocks}},
            dtype == DType::f32 ? 1e-5F : 0.05F);
      }
    }
  }
};

TEST_F(Decoding, GivesTheLogitsOfWholeTextsWithLearnedPositions) {
  expect_in_all_precisions(small_gpt);
}

TEST_F(Decoding, GivesThemWithSharedNormalisedKeysAWindowAndASoftCap) {
  expect_in_all_precisions(small_llama);
}

TEST_F(Decoding, GivesThemWithLocalAndGlobalLayersAndAScaledEmbedding) {
  expect_in_all_precisions(test::small_gemma);
}

TEST_F(Decoding, GivesThemWithNormsAfterBranchesAndALayerWithoutPositions) {
  expect_in_all_precisions(test::small_olmo);
}

TEST_F(Decoding, GivesThemWithExperts) {
  TransformerOptions options = test::small_experts;
  options.init_std = 0.02;
  expect_in_all_precisions(options);
}

TEST_F(Decoding, GivesThemWithSinksAndBiasesOfAttention) {
  expect_in_all_precisions(test::small_sinks);
}

TEST_F(Decoding, GivesThemUnderEveryRopeScaling) {
  for (const auto scaling : {ops::RopeScaling::none, ops::RopeScaling::linear,
                             ops::RopeScaling::llama3, ops::RopeScaling::yarn})
    expect_in_all_precisions(with_rope(scaling));
}

// Plans count the cache; training has none.
TEST_F(Decoding, OnlyDecodingHasACacheOfKeysAndValues) {
  BuildOptions build{.micro_batch = samples};
  EXPECT_EQ(ModelCase(*device_, *compute_, small_llama, build).model().cache_bytes(), 0U);

  build.decode = {.rows = 1, .capacity = 8};
  const std::size_t elements = 2 * 2 * samples * 8 * 4 * 6;  // layers, both, heads of 6
  EXPECT_EQ(ModelCase(*device_, *compute_, small_llama, build).model().cache_bytes(),
            elements * sizeof(float));
}

}  // namespace
}  // namespace trireme
