// SPDX-License-Identifier: Apache-2.0
// Whole runs of the trireme binary on tiny data sets that are packed once per test program.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/command.h"

namespace trireme::test {

// What metrics.jsonl says about each training step.
struct LoggedStep {
  std::int64_t step = 0;
  double loss = 0;
  double grad_norm = 0;   // 0 where it was not finite
  double loss_scale = 0;  // 0 where the loss is not scaled
  std::int64_t skipped = 0;
};

class RunTest : public testing::Test {
 protected:
  // Packs the data sets; they live until the program ends.
  static void SetUpTestSuite();

  // `trireme ARGUMENTS` on `ranks` ranks (0: without mpirun).
  [[nodiscard]] static CommandResult trireme(const std::string& arguments, int ranks = 0);
  // Trains a 2-layer GPT on text for a few steps into directory() + "/" + name; `set` adds "--set"
  // options.
  [[nodiscard]] CommandResult train_gpt(const std::string& name, int ranks,
                                        const std::vector<std::string>& set = {});
  // The same for a 2-block ResNet on random images of two classes.
  [[nodiscard]] CommandResult train_resnet(const std::string& name, int ranks,
                                           const std::vector<std::string>& set = {});

  [[nodiscard]] std::vector<LoggedStep> steps_of(const std::string& name) const;
  // Last validation loss in metrics.jsonl.
  [[nodiscard]] double validation_loss_of(const std::string& name) const;
  [[nodiscard]] std::string weights_of(const std::string& name) const;

  [[nodiscard]] const std::string& directory() const { return directory_.path(); }
  [[nodiscard]] static std::string data_directory();

 private:
  [[nodiscard]] CommandResult train(const std::string& config, const std::string& name, int ranks,
                                    const std::vector<std::string>& set);
  TemporaryDirectory directory_;
};

}  // namespace trireme::test
