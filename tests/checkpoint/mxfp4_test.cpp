// SPDX-License-Identifier: Apache-2.0
// Experts' weights in MXFP4. The expected values are those of transformers 5.24,
// convert_moe_packed_tensors.
#include "launch/exchange/mxfp4.h"

#include <gtest/gtest.h>

#include <cmath>

#include "launch/exchange/hf_weights.h"
#include "runtime/checkpoint/files/safetensors.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using Bytes = std::vector<std::uint8_t>;
using hugging_face::HfTensor;
using test::expect_error;

constexpr std::size_t experts = 2, rows = 3, groups = 2;
const Shape whole{2, 64, 3};
const HfTensor up{"model.layers.0.mlp.experts.up", whole};

Bytes blocks() {
  Bytes bytes;
  for (std::size_t i = 0; i < experts * rows * groups * 16; ++i)
    bytes.push_back(static_cast<std::uint8_t>(i * 37 % 256));
  return bytes;
}
Bytes scales() {
  Bytes bytes;
  for (std::size_t i = 0; i < experts * rows * groups; ++i)
    bytes.push_back(static_cast<std::uint8_t>(i * 23 % 11 + 120));
  return bytes;
}

void expect_values(const std::vector<float>& values) {
  const auto at = [&](std::size_t expert, std::size_t column, std::size_t row) {
    return values.at((expert * 64 + column) * rows + row);
  };
  EXPECT_EQ(at(0, 1, 0), 0.0F);
  EXPECT_EQ(at(0, 2, 1), 0.09375F);
  EXPECT_EQ(at(0, 33, 2), -0.125F);
  EXPECT_EQ(at(0, 20, 0), 0.0078125F);
  EXPECT_EQ(at(1, 63, 2), -0.00390625F);
  EXPECT_EQ(at(1, 40, 0), 2.0F);
  EXPECT_EQ(at(1, 17, 1), -2.0F);
  EXPECT_EQ(at(1, 5, 2), 32.0F);
  double weighted = 0, sizes = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    weighted += static_cast<double>(values[i]) * static_cast<double>((i + 1) % 101);
    sizes += static_cast<double>(std::abs(values[i]));
  }
  EXPECT_EQ(weighted, 2815.546875);
  EXPECT_EQ(sizes, 1135.20703125);
}

TEST(Mxfp4, HasTheValuesOfTransformers) {
  expect_values(decode_mxfp4("w", blocks(), scales(), whole));
}

TEST(Mxfp4, HasEveryCodeWithExtremeScalesExactly) {
  Bytes codes;
  for (std::uint8_t i = 0; i < 16; ++i)
    codes.push_back(static_cast<std::uint8_t>(i % 8 * 2 | (i % 8 * 2 + 1) << 4));
  const float expected[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};

  for (const int scale : {0, 1, 127, 200}) {
    const std::vector<float> values =
        decode_mxfp4("w", codes, Bytes{static_cast<std::uint8_t>(scale)}, {1, 32, 1});

    for (std::size_t i = 0; i < 32; ++i) {
      EXPECT_EQ(values[i],
                std::ldexp(i % 16 < 8 ? expected[i % 8] : -expected[i % 8], scale - 127));
      EXPECT_EQ(std::signbit(values[i]), i % 16 >= 8);
    }
  }
}

// A family of one tensor, in files that hold it packed.
class Mxfp4Files : public testing::Test {
 protected:
  void write(const std::vector<NamedTensor>& tensors) {
    write_safetensors(directory_.file("model.safetensors"), tensors);
  }
  static Tensor of(Bytes& bytes, const Shape& shape) {
    return {reinterpret_cast<std::byte*>(bytes.data()), DType::u8, shape};
  }
  [[nodiscard]] HfWeights open() const {
    static constexpr hugging_face::Exchange exchange{
        .names = [](const ModelConfig&) -> std::vector<hugging_face::NamePair> {
          return {{.ours = "up", .hf = {up}}};
        },
        .plain_name = [](std::string_view hf, const ModelConfig&) -> std::optional<std::string> {
          return std::string(hf);
        }};
    return {directory_.path(), exchange, {}};
  }

  test::TemporaryDirectory directory_;
  Bytes blocks_ = blocks(), scales_ = scales();
};

TEST_F(Mxfp4Files, AreReadAsTheTensorThatTheyStandFor) {
  write({{up.name + "_blocks", of(blocks_, {2, 3, 2, 16})},
         {up.name + "_scales", of(scales_, {2, 3, 2})}});
  HfWeights weights = open();

  weights.require(up);
  weights.expect_nothing_else();

  expect_values(weights.read(up));
}

TEST_F(Mxfp4Files, OfOtherFormsAreRefusedByName) {
  const auto refused = [&](const std::vector<NamedTensor>& tensors, const auto&... parts) {
    write(tensors);
    expect_error(
        ExitCode::checkpoint,
        [&] {
          HfWeights weights = open();
          weights.require(up);
          static_cast<void>(weights.read(up));
        },
        parts...);
  };
  const NamedTensor good{up.name + "_blocks", of(blocks_, {2, 3, 2, 16})};
  const std::string scales_name = up.name + "_scales";

  refused({good}, "has no tensor " + scales_name);
  refused({{good.name, of(blocks_, {2, 6, 16})}, {scales_name, of(scales_, {2, 3, 2})}},
          good.name + " is (2, 6, 16), not (2, 3, 2, 16)");
  refused({good, {scales_name, of(scales_, {2, 6})}}, scales_name + " is (2, 6), not (2, 3, 2)");
  std::vector<float> floats(12);
  refused(
      {good, {scales_name, {reinterpret_cast<std::byte*>(floats.data()), DType::f32, {2, 3, 2}}}},
      scales_name + " holds f32");
  scales_[5] = 255;
  refused({good, {scales_name, of(scales_, {2, 3, 2})}}, scales_name + ": a scale is 255");
}

}  // namespace
}  // namespace trireme
