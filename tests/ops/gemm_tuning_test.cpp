// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/gemm/gemm_tuning.h"

#include <algorithm>
#include <cstdlib>

#include "runtime/device/gpu_facts.h"
#include "runtime/ops/gemm/linear.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;
using ops::GemmChoices;
using ops::GemmKey;

const GemmKey some_key{.m = 768,
                       .n = 8192,
                       .k = 3072,
                       .transpose_a = true,
                       .type_a = DType::bf16,
                       .type_b = DType::bf16,
                       .output = DType::f32,
                       .epilogue = ops::Epilogue::gelu_bias,
                       .alignment = 16,
                       .processors = 120,
                       .tf32 = false};

GemmChoices some_choices() {
  GemmChoices choices{
      .gpu = "A GPU, 8 multiprocessors", .library = "cuBLASLt 1.2.3", .algorithms = {}};
  choices.algorithms[some_key] = {.algorithm = {1, 2, ~0ULL, 4, 5, 6, 7, 8}, .microseconds = 12.5};
  GemmKey other = some_key;
  other.type_a = DType::f8e5m2;
  other.epilogue = ops::Epilogue::bias_gradient;
  choices.algorithms[other] = {
      .algorithm = {9}, .microseconds = 3.25, .apart_microseconds = 2.5, .fused = false};
  other.epilogue = ops::Epilogue::dgelu;
  choices.algorithms[other] = {
      .algorithm = {10}, .microseconds = 4.5, .apart_microseconds = 5.125, .fused = true};
  return choices;
}

GemmChoices parse(const std::string& text) {
  const GemmChoices own = some_choices();
  return GemmChoices::parse(text, "tuned.txt", own.gpu, own.library);
}

TEST(ProductKeys, AreTextAndBack) {
  EXPECT_EQ(ops::to_text(some_key), "768 8192 3072 TN bf16 bf16 f32 gelu_bias 16 120 fp32");
  EXPECT_EQ(ops::parse_gemm_key(ops::to_text(some_key)), some_key);
  GemmKey blocks = some_key;
  blocks.scaling_a = ops::Fp8Scaling::square_128;
  blocks.scaling_b = ops::Fp8Scaling::row_128;
  EXPECT_EQ(ops::to_text(blocks), "768 8192 3072 TN bf16 bf16 f32 gelu_bias 16 120 128x128*1x128");
  EXPECT_EQ(ops::parse_gemm_key(ops::to_text(blocks)), blocks);
  for (const char* const text :
       {"", "768", "0 8192 3072 TN bf16 bf16 f32 bias 16 0 fp32",
        "1 1 1 TX bf16 bf16 f32 bias 16 0 fp32", "1 1 1 TN u8 bf16 f32 bias 16 0 fp32",
        "1 1 1 TN bf16 bf16 f32 relu 16 0 fp32", "1 1 1 TN bf16 bf16 f32 bias 12 0 fp32",
        "1 1 1 TN bf16 bf16 f32 bias 16 0 fp64", "1 1 1 TN bf16 bf16 f32 bias 16 0 fp32 1",
        "1 1 99999999999999999999 TN bf16 bf16 f32 bias 16 0 fp32"}) {
    EXPECT_EQ(ops::parse_gemm_key(text), std::nullopt) << text;
  }
}

TEST(ProductFiles, ReadBackAsWrittenToFiles) {
  const GemmChoices given = some_choices();

  const GemmChoices read = parse(given.to_text());

  ASSERT_EQ(read.algorithms.size(), 3U);
  for (const auto& [key, choice] : given.algorithms) {
    const ops::GemmChoice& same = read.algorithms.at(key);
    EXPECT_EQ(same.algorithm, choice.algorithm);
    EXPECT_EQ(same.microseconds, choice.microseconds);
    EXPECT_EQ(same.apart_microseconds, choice.apart_microseconds);
    EXPECT_EQ(same.fused, choice.fused);
  }
  EXPECT_EQ(read.to_text(), given.to_text());
  EXPECT_EQ(read.summary(), "3 tuned matmuls, 1 of 2 measured epilogues fused");
}

TEST(ProductFiles, OfVersionOneLeaveEpiloguesToThePolicy) {
  GemmChoices old = some_choices();
  for (auto& [key, choice] : old.algorithms)
    choice.apart_microseconds = 0;
  std::string text = old.to_text();
  text.replace(text.find(" 2\n"), 3, " 1\n");

  const GemmChoices read = parse(text);

  EXPECT_EQ(read.algorithms.size(), 3U);
  for (const auto& [key, choice] : read.algorithms)
    EXPECT_TRUE(choice.fused) << ops::to_text(key);
  EXPECT_EQ(read.summary(), "3 tuned matmuls, 0 of 0 measured epilogues fused");
}

TEST(ProductFiles, RefuseBrokenAndForeignFilesByLine) {
  const std::string good = some_choices().to_text();
  const auto changed = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };

  expect_error([&] { parse("hello\n"); }, {"tuned.txt:1:", "trireme product algorithms 2"});
  expect_error([&] { parse(changed("A GPU", "Another")); }, {"tuned.txt:2:", "Another", "A GPU"});
  expect_error([&] { parse(changed("1.2.3", "1.2.4")); }, {"tuned.txt:3:", "1.2.4", "1.2.3"});
  expect_error([&] { parse(changed("768 8192", "769 8192")); }, {"checksum"});
  expect_error([&] { parse(changed("12.500", "11.500")); }, {"checksum"});
  expect_error([&] { parse(changed("apart", "fused")); }, {"checksum"});
  expect_error([&] { parse(good + "nonsense\n"); }, {"tuned.txt:7:", "expected a matmul"});
  expect_error([&] { parse(good.substr(0, good.size() - 1)); }, {"tuned.txt:6:", "ends inside"});
  const std::string last = good.substr(good.rfind('\n', good.size() - 2) + 1);
  expect_error([&] { parse(good + last); }, {"tuned.txt:7:", "twice"});
}

// Every byte of a file changed, one at a time: refused, or the same choices.
TEST(ProductFiles, NoChangedByteGoesUnseen) {
  const std::string good = some_choices().to_text();
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const char byte : {'\0', '\n', ' ', '0', '9', 'f', '\xff'}) {
      std::string text = good;
      if (text[i] == byte) continue;
      text[i] = byte;
      EXPECT_THROW(static_cast<void>(parse(text)), Error) << "byte " << i;
    }
  }
}

// One matmul of a unique shape, not planned by any other test.
class Tuning : public ::testing::Test {
 protected:
  static constexpr std::int64_t rows = 24, outputs = 40, inputs = 136;

  void SetUp() override {
    if (stream().device().type() != DeviceType::cuda) GTEST_SKIP() << "cuBLASLt is on GPUs only";
  }
  void TearDown() override {
    if (!IsSkipped()) ops::use_gemm_choices({}, "");
  }

  std::vector<unsigned char> matmul() const {
    const GuardedTensor y(DType::f32, {rows, outputs});
    ops::linear_forward(stream(), y, x_, w_);
    return y.raw();
  }
  static GemmKey key() {
    const auto keys = ops::unmeasured_gemms();
    const auto found = std::ranges::find_if(
        keys, [](const GemmKey& k) { return k.n == rows && k.m == outputs && k.k == inputs; });
    EXPECT_NE(found, keys.end());
    return found == keys.end() ? GemmKey{} : *found;
  }

 private:
  GuardedTensor x_ = random_tensor(DType::f32, {rows, inputs}, 1);
  GuardedTensor w_ = random_tensor(DType::f32, {outputs, inputs}, 2);
};

TEST_F(Tuning, UsesTheMeasuredAlgorithmWithItsBits) {
  const auto suggested = matmul();
  GemmChoices choices = ops::no_gemm_choices(stream().device());

  ops::measure_gemm(stream(), key(), choices);
  ops::use_gemm_choices(choices, "tuned.txt");
  const auto tuned = matmul();

  EXPECT_GT(choices.algorithms.begin()->second.microseconds, 0);
  EXPECT_TRUE(ops::unmeasured_gemms().empty());
  EXPECT_EQ(matmul(), tuned);
  const char* const algorithms = std::getenv("TRIREME_EMULATED_ALGORITHMS");
  if (algorithms == nullptr) return;
  // The emulated algorithms sum in different orders, and the last but one is the fastest.
  const std::uint64_t count = std::strtoull(algorithms, nullptr, 10);
  EXPECT_EQ(choices.algorithms.begin()->second.algorithm[1], count - 2);
  EXPECT_NE(tuned, suggested);
}

TEST_F(Tuning, MeasuresEveryKindOfProduct) {
  GemmChoices choices = ops::no_gemm_choices(stream().device());
  for (const ops::Epilogue epilogue : {ops::Epilogue::gelu_bias, ops::Epilogue::dgelu,
                                       ops::Epilogue::bias_gradient, ops::Epilogue::bias}) {
    GemmKey kind{.m = 16, .n = 32, .k = 48, .transpose_a = true, .epilogue = epilogue};

    ops::measure_gemm(stream(), kind, choices);

    EXPECT_GT(choices.algorithms.at(kind).microseconds, 0) << ops::to_text(kind);
    EXPECT_EQ(choices.algorithms.at(kind).apart_microseconds > 0, epilogue != ops::Epilogue::bias);
    kind.epilogue = epilogue_apart(epilogue);
    EXPECT_TRUE(choices.algorithms.contains(kind)) << "is what runs apart";
  }
  GemmKey fp8{.m = 16,
              .n = 32,
              .k = 48,
              .transpose_a = true,
              .type_a = DType::f8e4m3,
              .type_b = DType::f8e4m3,
              .output = DType::bf16};
  ops::measure_gemm(stream(), fp8, choices);
  EXPECT_GT(choices.algorithms.at(fp8).microseconds, 0);
  if (cuda_facts().gpus.front().capability != 90) return;
  fp8.scaling_a = ops::Fp8Scaling::square_128;
  fp8.scaling_b = ops::Fp8Scaling::row_128;
  ops::measure_gemm(stream(), fp8, choices);
  EXPECT_GT(choices.algorithms.at(fp8).microseconds, 0);
}

// Planted times of the emulated GPU decide, for each epilogue by itself.
TEST_F(Tuning, FusesTheEpiloguesThatAreFaster) {
  if (std::getenv("TRIREME_EMULATED_ALGORITHMS") == nullptr) GTEST_SKIP() << "for planted times";
  constexpr ops::Epilogue epilogues[] = {ops::Epilogue::gelu_bias, ops::Epilogue::dgelu,
                                         ops::Epilogue::bias_gradient};
  const auto fused = [&](const char* slow) {
    ::setenv("TRIREME_EMULATED_SLOW_EPILOGUES", slow, 1);
    GemmChoices choices = ops::no_gemm_choices(stream().device());
    std::vector<bool> result;
    for (const ops::Epilogue epilogue : epilogues) {
      const GemmKey kind{.m = 16, .n = 32, .k = 48, .epilogue = epilogue};
      ops::measure_gemm(stream(), kind, choices);
      const ops::GemmChoice& choice = choices.algorithms.at(kind);
      EXPECT_EQ(choice.fused, choice.microseconds < choice.apart_microseconds) << slow;
      result.push_back(choice.fused);
    }
    ::unsetenv("TRIREME_EMULATED_SLOW_EPILOGUES");
    return result;
  };

  EXPECT_EQ(fused("none,bias"), (std::vector{true, true, true}));
  EXPECT_EQ(fused("gelu_bias,dgelu,bias_gradient"), (std::vector{false, false, false}));
  EXPECT_EQ(fused("none,gelu_bias"), (std::vector{false, true, true}));
  EXPECT_EQ(fused("bias,dgelu,bias_gradient"), (std::vector{true, false, false}));
}

TEST_F(Tuning, RefusesAnAlgorithmThatTheLibraryRefuses) {
  matmul();
  GemmChoices choices = ops::no_gemm_choices(stream().device());
  choices.algorithms[key()].algorithm.fill(~0ULL);

  ops::use_gemm_choices(choices, "tuned.txt");

  expect_error([&] { matmul(); }, {"device.autotune", "tuned.txt", "40 24 136", "remove"});
}

}  // namespace
}  // namespace trireme
