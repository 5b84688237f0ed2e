// SPDX-License-Identifier: Apache-2.0
// Histograms and samples of whole runs, as their event files have them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "tests/launch/fixture/run_fixture.h"
#include "tests/telemetry/export/protobuf_reader.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::StartsWith;

// "tag at step" to the bytes of every tensor of a run's event file: histograms, texts, images.
using Tensors = std::map<std::string, std::string>;

Tensors tensors_in(const std::string& run) {
  Tensors tensors;
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    if (!entry.path().filename().string().starts_with("events.out.tfevents.")) continue;
    const std::string text = read_file(entry.path());
    for (std::string_view rest = text; !rest.empty();) {
      std::uint64_t size = 0;
      std::memcpy(&size, rest.data(), sizeof size);
      const Message event(rest.substr(12, size));
      for (const Message& value : event.message(5).messages(1))
        if (value.has(8))
          tensors[fmt::format("{} at {}", value.text(1), event.integer(2))] = value.text(8);
      rest.remove_prefix(16 + size);
    }
  }
  std::erase_if(tensors, [](const auto& tensor) { return tensor.first.starts_with("co"); });
  return tensors;
}

class SnapshotRuns : public RunTest {
 protected:
  static std::vector<std::string> with(std::vector<std::string> set) {
    for (const char* const one :
         {"reproducibility=layout", "telemetry.histograms_every=2", "telemetry.samples_every=4"})
      set.emplace_back(one);
    return set;
  }
  [[nodiscard]] std::string path(const std::string& name) const { return directory() + "/" + name; }
};

TEST_F(SnapshotRuns, AreTheSameOnEveryLayout) {
  const CommandResult run = train_gpt("one", 1, with({"parallel.tensor_blocks=2"}));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const Tensors one = tensors_in(path("one"));
  EXPECT_THAT(
      one, AllOf(Contains(Key("weights/blocks.0.attention.qkv.weight at 2")),
                 Contains(Key("gradients/blocks.0.attention.qkv.weight at 4")),
                 Contains(Key("activations/blocks.1 at 4")), Contains(Key("samples/text_1 at 4"))));

  const CommandResult mesh = train_gpt(
      "mesh", 4, with({"parallel.tensor=2", "parallel.pipeline=2", "parallel.tensor_blocks=2"}));
  ASSERT_EQ(mesh.exit_code, 0) << mesh.output;
  EXPECT_EQ(tensors_in(path("mesh")), one);
  ASSERT_EQ(train_gpt("zero", 2, with({"parallel.zero=3", "parallel.tensor_blocks=2"})).exit_code,
            0);
  EXPECT_EQ(tensors_in(path("zero")), one);
  const CommandResult rows = train_gpt(
      "rows", 2, with({"parallel.tensor=2", "parallel.sequence=true", "parallel.tensor_blocks=2"}));
  ASSERT_EQ(rows.exit_code, 0) << rows.output;
  EXPECT_EQ(tensors_in(path("rows")), one);
}

TEST_F(SnapshotRuns, ChangeNoBits) {
  const std::vector<std::string> plain = {"reproducibility=layout"};
  ASSERT_EQ(train_resnet("plain", 2, plain).exit_code, 0);

  const CommandResult run = train_resnet("watched", 2, with({}));

  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(weights_of("watched"), weights_of("plain"));
  const Tensors tensors = tensors_in(path("watched"));
  ASSERT_THAT(tensors, Contains(Key("samples/picture_1 at 4")));
  EXPECT_THAT(tensors.at("samples/picture_1 at 4"), HasSubstr("\x89PNG"));
  EXPECT_THAT(tensors.at("samples/classes at 4"), HasSubstr("| samples/picture_1 |"));
}

TEST_F(SnapshotRuns, AreRefusedWithoutTensorBoard) {
  const CommandResult run =
      train_gpt("none", 1, {"telemetry.histograms_every=2", "telemetry.tensorboard=false"});

  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.output, HasSubstr("telemetry.histograms_every=2: 2 needs telemetry.tensorboard"));
}

// The second low-rank factor starts as zeros, and stays so with a rate that is 0 in fp32: the first
// has no gradient.
TEST_F(SnapshotRuns, NameWeightsWithoutGradient) {
  ASSERT_EQ(train_gpt("weights", 1, {"train.steps=2"}).exit_code, 0);

  const CommandResult run =
      train_gpt("dead", 2,
                {"train.steps=22", "lora.rank=2", "optimizer.learning_rate=1e-50",
                 "parallel.zero=2", "train.initial_weights=" + path("weights")});

  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_THAT(run.output,
              AllOf(HasSubstr("step 21: the gradient of 8 of the weights was exactly 0 in "
                              "steps 20 and 21: blocks.0."),
                    Not(HasSubstr("step 22: the gradient"))));
  EXPECT_THAT(read_file(path("dead/metrics.jsonl")), HasSubstr(R"("warning":"dead_layer")"));
}

}  // namespace
}  // namespace trireme::test
