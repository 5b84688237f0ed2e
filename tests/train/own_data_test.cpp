// SPDX-License-Identifier: Apache-2.0
// Data sets of a program's own that do not fit its model.
#include <gtest/gtest.h>

#include "launch/engine/engine.h"
#include "models/gpt/gpt.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

class Zeros final : public Dataset {
 public:
  explicit Zeros(SampleLayout layout) : layout_(std::move(layout)) {}
  [[nodiscard]] DataKind kind() const override {
    return layout_.input_dtype == DType::i32 ? DataKind::tokens : DataKind::images;
  }
  [[nodiscard]] std::int64_t size() const override { return 8; }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  [[nodiscard]] std::uint64_t fingerprint() const override { return 1; }
  void read(std::int64_t, std::span<std::byte> inputs,
            std::span<std::int32_t> targets) const override {
    std::ranges::fill(inputs, std::byte{0});
    std::ranges::fill(targets, 0);
  }

 private:
  SampleLayout layout_;
};

SampleLayout signals(std::int64_t width, std::int64_t targets) {
  return {.input_dtype = DType::f32,
          .inputs = Shape{1, width, 1},
          .targets = Shape{targets},
          .target_dtype = DType::f32};
}

void open(const ModelTraits& traits, const SampleLayout& training, const SampleLayout& validation) {
  const GptOptions gpt{.layers = 1, .hidden = 8, .heads = 1, .context = 16, .vocabulary = 50};
  Config config;
  config.run.seed = 1;
  config.parallel.data = config.parallel.tensor = config.parallel.tensor_blocks = 1;
  config.parallel.pipeline = 1;
  config.train.micro_batch = config.train.global_batch = 2;
  const Engine engine(single_resources(Device::create(DeviceType::cpu)), config, Purpose::train,
                      {.model = OwnModel{gpt_chain(gpt), traits},
                       .training = std::make_shared<Zeros>(training),
                       .validation = std::make_shared<Zeros>(validation)});
}

TEST(OwnData, MustHaveTheLayoutThatTheModelReads) {
  const ModelTraits text{InputKind::tokens, {TargetKind::tokens, {16}}, 16, "tokens"};
  ModelTraits values{InputKind::images, {TargetKind::values, {3}}, 1, "images"};
  const auto refused = [](const ModelTraits& traits, const SampleLayout& training,
                          const SampleLayout& validation, const std::string& part,
                          const std::string& given) {
    test::expect_error(
        ExitCode::config, [&] { open(traits, training, validation); }, part, given);
  };
  open(text, token_samples(16), token_samples(16));
  refused(text, token_samples(32), token_samples(16), "own training data", "(32)");
  refused(text, token_samples(16), token_samples(8), "own validation data", "(8)");
  open(values, signals(64, 3), signals(64, 3));
  refused(values, signals(64, 2), signals(64, 3), "own training data", "(2)");
  SampleLayout classes = signals(64, 3);
  classes.target_dtype = DType::i32;
  refused(values, signals(64, 3), classes, "own validation data", "i32");
  values.image_size = values.channels = 1;
  values.image_width = 32;
  refused(values, signals(64, 3), signals(32, 3), "own training data", "(1, 64, 1)");
  open(values, signals(32, 3), signals(32, 3));
}

}  // namespace
}  // namespace trireme
