// SPDX-License-Identifier: Apache-2.0
// `trireme checkpoint` on files of a temporary directory: weights here, in Hugging Face's form, and
// back.
#pragma once

#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>

#include "launch/cli/commands.h"
#include "launch/guard.h"
#include "models/config.h"
#include "models/registry.h"
#include "runtime/checkpoint/files/weight_files.h"
#include "runtime/checkpoint/gather.h"
#include "tests/checkpoint/parts.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme::test {

// The output of `trireme checkpoint ...`.
inline std::string run(std::vector<std::string> arguments) {
  CLI::App app;
  add_checkpoint_commands(app);
  arguments.insert(arguments.begin(), {"trireme", "checkpoint"});
  std::vector<char*> raw;
  for (std::string& argument : arguments)
    raw.push_back(argument.data());
  testing::internal::CaptureStdout();
  try {
    EXPECT_EQ(parse_and_run(app, static_cast<int>(raw.size()), raw.data()), 0);
  } catch (...) {
    std::fflush(stdout);
    testing::internal::GetCapturedStdout();
    throw;
  }
  std::fflush(stdout);
  return testing::internal::GetCapturedStdout();
}

class CommandTest : public MpiTest {
 protected:
  void save(const std::string& run, std::int64_t step, std::uint64_t salt, int blocks) {
    Part part(device(), world(), {"", {}, 0, blocks});
    part.fill(salt);
    CheckpointSaver saver(device(), part.mesh, part.placed, part.values,
                          {.directory = directory_.file(run + "/checkpoints")});
    saver.save(*part.stream, step, R"({"seed":1234})");
    saver.finish();
    ASSERT_EQ(saver.take_report()->problem, "");
  }
  TemporaryDirectory directory_;
};

class ExchangeTest : public CommandTest {
 protected:
  explicit ExchangeTest(const std::string& more = "") {
    write_text(
        config_,
        fmt::format("model: {{layers: 2, hidden: 8, heads: 2, context: 6, vocabulary: 50{}}}\n",
                    more));
    make_weights();
  }

  void make_weights() {
    std::mt19937_64 random(1);
    weights_.clear();
    for (const ParamSpec& spec : specs()) {
      std::vector<float> values(static_cast<std::size_t>(spec.shape.count()));
      for (float& value : values)
        value = static_cast<float>(random()) * 0x1p-60F;
      if (spec.name == "embedding.token.weight" || spec.name.starts_with("head."))
        std::fill(values.begin() + vocabulary * (spec.shape.rank() == 2 ? hidden : 1), values.end(),
                  0.0F);
      weights_.push_back({spec.name, spec.shape, values});
    }
    save_weights(ours_, weights_, {});
  }

  // From the model itself, so that a parameter missing in the table is detected.
  std::vector<ParamSpec> specs() {
    const auto model = make_model(device(), load_config(config_, {}), 1, false);
    return {model->params().layout().specs().begin(), model->params().layout().specs().end()};
  }

  static std::map<std::string, std::vector<float>> read_all(const std::string& path) {
    const WeightFiles files(path);
    std::map<std::string, std::vector<float>> all;
    for (const std::string& name : files.names())
      all[name] = files.read(name);
    return all;
  }

  void export_ours() { run({"export", ours_, "--config", config_, "--out", theirs_}); }
  void import_hf(const std::string& from) {
    run({"import", from, "--config", config_, "--out", back_, "--force"});
  }
  // Rewrites Hugging Face's weights as one or several files.
  void rewrite(const std::string& path, const std::map<std::string, std::vector<float>>& tensors) {
    std::vector<WholeTensor> whole;
    const SafetensorsFile shapes(theirs_ + "/model.safetensors");
    for (const auto& [name, values] : tensors) {
      const std::string plain = name.starts_with("transformer.") ? name.substr(12) : name;
      whole.push_back(
          {name, shapes.contains(plain) ? shapes.shape(plain) : Shape{vocabulary, hidden}, values});
    }
    save_weights(path, whole, {});
  }

  static constexpr std::int64_t vocabulary = 50, hidden = 8;
  std::string config_ = directory_.file("config.yaml"), ours_ = directory_.file("ours.safetensors");
  std::string theirs_ = directory_.file("theirs"), back_ = directory_.file("back.safetensors");
  std::vector<WholeTensor> weights_;
};

}  // namespace trireme::test
