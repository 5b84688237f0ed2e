// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {

class InitialWeightsTest : public RunTest {
 protected:
  using Settings = std::vector<std::string>;

  // The run that provides the weights.
  void SetUp() override {
    const CommandResult source = train_gpt("source", 1, {"checkpoint.every_steps=6"});
    ASSERT_EQ(source.exit_code, 0) << source.output;
  }
  [[nodiscard]] std::string source() const { return directory() + "/source"; }

  [[nodiscard]] CommandResult begin(const std::string& name, int ranks, const std::string& weights,
                                    const Settings& more = {}) {
    Settings all{"train.initial_weights=" + weights, "optimizer.learning_rate=0", "train.steps=1",
                 "lr_schedule.warmup_steps=0", "run.seed=8"};
    all.insert(all.end(), more.begin(), more.end());
    return train_gpt(name, ranks, all);
  }
  // Behind the header, which tells the runs' steps.
  [[nodiscard]] std::string values_of(const std::string& name) const {
    const std::string file = weights_of(name);
    std::uint64_t header = 0;
    std::memcpy(&header, file.data(), sizeof header);
    return file.substr(sizeof header + header);
  }
  void expect_weights_of_source(const std::string& name, const CommandResult& result) const {
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_TRUE(values_of(name) == values_of("source"));
    EXPECT_FALSE(steps_of(name).empty());
  }
};

}  // namespace trireme::test
