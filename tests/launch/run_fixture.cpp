// SPDX-License-Identifier: Apache-2.0
#include "tests/launch/run_fixture.h"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

namespace trireme::test {
namespace {

constexpr const char* gpt_config = R"(
run: {directory: runs/test, seed: 7}
precision: fp32
model: {family: gpt2, layers: 2, hidden: 32, heads: 2, context: 24, vocabulary: 256}
data: {path: text/train, validation_path: text/validation, workers: 1, prefetch: 2}
train: {steps: 6, global_batch: 8, micro_batch: 2, log_every: 1, clip_norm: 1.0}
optimizer: {name: adamw, learning_rate: 3e-3, weight_decay: 0.1}
lr_schedule: {name: cosine, warmup_steps: 2}
)";

constexpr const char* resnet_config = R"(
run: {directory: runs/test, seed: 7}
precision: fp32
model: {family: resnet, block: basic, stem: small, stages: [1, 1], width: 8, image_size: 12, channels: 1, classes: 3}
data: {path: images/train, validation_path: images/validation, workers: 1, prefetch: 2, crop_padding: 1, flip: true, mean: [0.5], std: [0.25]}
train: {steps: 5, global_batch: 16, micro_batch: 4, log_every: 1, clip_norm: 0, label_smoothing: 0.1}
optimizer: {name: sgd, learning_rate: 0.05, momentum: 0.9, nesterov: true, weight_decay: 5e-4}
)";

// Words of a small vocabulary, so that a model learns something in a few steps.
std::string text(std::size_t bytes) {
  static constexpr const char* words[] = {"oar ",     "rower ", "keel ", "bench ",
                                          "trireme ", "sea ",   "pull ", "the "};
  std::mt19937 engine(1);
  std::string result;
  while (result.size() < bytes)
    result += words[engine() % std::size(words)];
  return result;
}

void big_endian(std::string& to, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8)
    to.push_back(static_cast<char>(value >> shift));
}

// IDX files of `count` 12 x 12 pictures whose brightness tells their class.
void write_idx(const std::string& directory, unsigned count) {
  std::mt19937 engine(2);
  std::string images, labels;
  big_endian(images, 0x803);
  for (const std::uint32_t extent : {count, 12U, 12U})
    big_endian(images, extent);
  big_endian(labels, 0x801);
  big_endian(labels, count);
  for (unsigned i = 0; i < count; ++i) {
    labels.push_back(static_cast<char>(i % 3));
    for (int pixel = 0; pixel < 144; ++pixel)
      images.push_back(static_cast<char>(engine() % 80 + 80 * (i % 3)));
  }
  write_file(directory + "/images_idx", images);
  write_file(directory + "/labels_idx", labels);
}

void require(const CommandResult& result) {
  if (result.exit_code != 0) throw std::runtime_error(result.output);
}

}  // namespace

std::string RunTest::data_directory() {
  static const TemporaryDirectory data;
  return data.path();
}

void RunTest::SetUpTestSuite() {
  const std::string data = data_directory();
  if (std::filesystem::exists(data + "/gpt.yaml")) return;
  write_file(data + "/resnet.yaml", resnet_config);
  write_file(data + "/text.txt", text(6000));
  write_idx(data, 120);
  require(trireme(
      fmt::format("data pack-text --quiet --out {0}/text --validation 0.1 {0}/text.txt", data)));
  require(
      trireme(fmt::format("data pack-images --quiet --out {0}/images --labels {0}/labels_idx "
                          "--classes 3 --validation 0.2 {0}/images_idx",
                          data)));
  write_file(data + "/gpt.yaml", gpt_config);
}

CommandResult RunTest::trireme(const std::string& arguments, int ranks) {
  const std::string launcher = ranks == 0 ? "" : fmt::format("{} -np {} ", TRIREME_MPIEXEC, ranks);
  return run_command(fmt::format("{}{} {}", launcher, TRIREME_BINARY, arguments));
}

CommandResult RunTest::train(const std::string& config, const std::string& name, int ranks,
                             const std::vector<std::string>& set) {
  std::string arguments = fmt::format("train {}/{} --set run.directory={}/{}", data_directory(),
                                      config, directory(), name);
  for (const std::string& option : set)
    arguments += " --set " + option;
  return trireme(arguments, ranks);
}

CommandResult RunTest::train_gpt(const std::string& name, int ranks,
                                 const std::vector<std::string>& set) {
  return train("gpt.yaml", name, ranks, set);
}

CommandResult RunTest::train_resnet(const std::string& name, int ranks,
                                    const std::vector<std::string>& set) {
  return train("resnet.yaml", name, ranks, set);
}

std::vector<LoggedStep> RunTest::steps_of(const std::string& name) const {
  std::istringstream lines(read_file(directory() + "/" + name + "/metrics.jsonl"));
  std::vector<LoggedStep> steps;
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    if (!object.contains("loss")) continue;
    const auto& norm = object["grad_norm"];
    steps.push_back({object["step"], object["loss"], norm.is_null() ? 0.0 : norm.get<double>(),
                     object.value("loss_scale", 0.0),
                     object.value("skipped_steps", std::int64_t{0})});
  }
  return steps;
}

double RunTest::validation_loss_of(const std::string& name) const {
  std::istringstream lines(read_file(directory() + "/" + name + "/metrics.jsonl"));
  double loss = -1;
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    if (object.contains("validation_loss")) loss = object["validation_loss"];
  }
  return loss;
}

std::string RunTest::weights_of(const std::string& name) const {
  return read_file(directory() + "/" + name + "/weights.safetensors");
}

}  // namespace trireme::test
