// SPDX-License-Identifier: Apache-2.0
// Experts that Hugging Face's files hold transposed, gates and values alternating, whole or in
// MXFP4.
#include <array>
#include <cmath>

#include "runtime/checkpoint/files/safetensors.h"
#include "tests/checkpoint/exchange_fixture.h"

namespace trireme {
namespace {

using test::run;

class GptOssExchange : public test::ExchangeTest {
 protected:
  // Sizes that MXFP4 can hold, all different.
  GptOssExchange() {
    test::write_text(config_,
                     "model: {family: gpt_oss, layers: 2, hidden: 32, heads: 2, kv_heads: 1, "
                     "context: 6, vocabulary: 50, window: 3, intermediate: 64, experts: 3}\n");
    make_weights();
  }
  static constexpr std::size_t experts = 3, width = 32, wide = 64;
  const std::string ours_at_ = "blocks.1.mlp.experts.", theirs_at_ = "model.layers.1.mlp.experts.";
};

TEST_F(GptOssExchange, RoundTripsBitForBitAndIsDetected) {
  export_ours();
  const std::string printed = run({"import", theirs_, "--out", back_});

  const auto back = read_all(back_);
  ASSERT_EQ(back.size(), weights_.size());
  for (const WholeTensor& tensor : weights_) {
    if (tensor.name.ends_with(".load")) continue;  // of our last step alone
    EXPECT_EQ(back.at(tensor.name), tensor.values) << tensor.name;
  }
  EXPECT_NE(printed.find("experts: 3"), std::string::npos) << printed;
  EXPECT_FALSE(read_all(theirs_).contains("model.layers.0.mlp.router.load"));
}

TEST_F(GptOssExchange, HasInputsFirstAndGatesAndValuesInTurns) {
  export_ours();

  const SafetensorsFile file(theirs_ + "/model.safetensors");
  EXPECT_EQ(file.shape(theirs_at_ + "gate_up_proj"), (Shape{3, 32, 128}));
  EXPECT_EQ(file.shape(theirs_at_ + "gate_up_proj_bias"), (Shape{3, 128}));
  EXPECT_EQ(file.shape(theirs_at_ + "down_proj"), (Shape{3, 64, 32}));
  EXPECT_EQ(file.shape("model.layers.1.mlp.router.bias"), (Shape{3}));
  const auto theirs = read_all(theirs_), ours = read_all(ours_);
  const auto &up = theirs.at(theirs_at_ + "gate_up_proj"),
             &down = theirs.at(theirs_at_ + "down_proj"),
             &up_bias = theirs.at(theirs_at_ + "gate_up_proj_bias"),
             &expand = ours.at(ours_at_ + "expand.weight"),
             &contract = ours.at(ours_at_ + "contract.weight"),
             &expand_bias = ours.at(ours_at_ + "expand.bias");
  EXPECT_EQ(theirs.at(theirs_at_ + "down_proj_bias"), ours.at(ours_at_ + "contract.bias"));
  for (std::size_t e = 0; e < experts; ++e) {
    for (std::size_t f = 0; f < wide; ++f) {
      const std::size_t gate = e * 2 * wide + f;
      ASSERT_EQ(up_bias[e * 2 * wide + 2 * f], expand_bias[gate]);
      ASSERT_EQ(up_bias[e * 2 * wide + 2 * f + 1], expand_bias[gate + wide]);
      for (std::size_t c = 0; c < width; ++c) {
        const std::size_t at = (e * width + c) * 2 * wide + 2 * f;
        ASSERT_EQ(up[at], expand[gate * width + c]);
        ASSERT_EQ(up[at + 1], expand[(gate + wide) * width + c]);
        ASSERT_EQ(down[(e * wide + f) * width + c], contract[(e * width + c) * wide + f]);
      }
    }
  }
}

// Of a matrix (experts, rows, columns): blocks of 32 columns, two codes in a byte, low half first.
struct Packed {
  explicit Packed(std::size_t rows, std::size_t columns, std::uint64_t seed)
      : rows(rows), columns(columns) {
    std::mt19937_64 random(seed);
    blocks.resize(3 * rows * columns / 2);
    scales.resize(3 * rows * columns / 32);
    for (std::uint8_t& byte : blocks)
      byte = static_cast<std::uint8_t>(random());
    for (std::uint8_t& byte : scales)
      byte = static_cast<std::uint8_t>(120 + random() % 11);
  }
  [[nodiscard]] float at(std::size_t expert, std::size_t row, std::size_t column) const {
    constexpr std::array<float, 8> sizes{0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
    const std::size_t index = (expert * rows + row) * columns + column;
    const int byte = blocks.at(index / 2), code = index % 2 == 0 ? byte & 15 : byte >> 4;
    const float size = sizes.at(static_cast<std::size_t>(code & 7));
    return std::ldexp(code < 8 ? size : -size, scales.at(index / 32) - 127);
  }
  void add(std::vector<NamedTensor>& tensors, const std::string& name) {
    const auto extent = [](std::size_t size) { return static_cast<std::int64_t>(size); };
    const Shape groups{3, extent(rows), extent(columns / 32)};
    tensors.push_back({name + "_blocks",
                       {reinterpret_cast<std::byte*>(blocks.data()), DType::u8,
                        Shape{3, groups[1], groups[2], 16}}});
    tensors.push_back(
        {name + "_scales", {reinterpret_cast<std::byte*>(scales.data()), DType::u8, groups}});
  }

  std::size_t rows, columns;
  std::vector<std::uint8_t> blocks, scales;
};

TEST_F(GptOssExchange, InMxfp4HasTheDecodedValuesExactly) {
  export_ours();
  auto whole = read_all(theirs_);
  std::vector<Packed> up, down;
  std::vector<NamedTensor> tensors;
  {
    const SafetensorsFile shapes(theirs_ + "/model.safetensors");
    for (const std::uint64_t layer : {0U, 1U}) {
      up.emplace_back(2 * wide, width, layer);
      down.emplace_back(width, wide, layer + 2);
    }
    for (std::size_t layer = 0; layer < 2; ++layer) {
      const std::string at = fmt::format("model.layers.{}.mlp.experts.", layer);
      up[layer].add(tensors, at + "gate_up_proj");
      down[layer].add(tensors, at + "down_proj");
      whole.erase(at + "gate_up_proj");
      whole.erase(at + "down_proj");
    }
    for (auto& [name, values] : whole)
      tensors.push_back(
          {name, {reinterpret_cast<std::byte*>(values.data()), DType::f32, shapes.shape(name)}});
  }
  write_safetensors(theirs_ + "/model.safetensors", tensors);

  import_hf(theirs_);

  const auto back = read_all(back_);
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const std::string at = fmt::format("blocks.{}.mlp.experts.", layer);
    const auto &expand = back.at(at + "expand.weight"), &contract = back.at(at + "contract.weight");
    for (std::size_t e = 0; e < experts; ++e) {
      for (std::size_t f = 0; f < wide; ++f) {
        for (std::size_t c = 0; c < width; ++c) {
          const std::size_t gate = (e * 2 * wide + f) * width + c;
          ASSERT_EQ(expand[gate], up[layer].at(e, 2 * f, c));
          ASSERT_EQ(expand[gate + wide * width], up[layer].at(e, 2 * f + 1, c));
          ASSERT_EQ(contract[(e * width + c) * wide + f], down[layer].at(e, c, f));
        }
      }
    }
  }
  for (const WholeTensor& tensor : weights_) {
    if (tensor.name.find(".experts.") != tensor.name.npos || tensor.name.ends_with(".load"))
      continue;
    EXPECT_EQ(back.at(tensor.name), tensor.values) << tensor.name;
  }
}

}  // namespace
}  // namespace trireme
