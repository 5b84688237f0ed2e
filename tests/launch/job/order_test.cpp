// SPDX-License-Identifier: Apache-2.0
// The samples that a run trains on, with restarts in the middle of an epoch on other numbers of
// ranks. With a learning rate of zero a sample's loss identifies it, so the log of a run with one
// sample per step lists the samples.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>

#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

class OrderTest : public RunTest {
 protected:
  static constexpr std::size_t samples = 24, batch = 4, context = 24;
  static constexpr std::size_t steps = samples / batch * 3 / 2;  // an epoch and a half

  OrderTest() {
    // Random bytes: no two samples are alike.
    std::mt19937 random(5);
    std::string text(samples * context + 1, ' ');
    std::ranges::generate(text, [&] { return static_cast<char>(random() % 256); });
    write_file(directory() + "/bytes", text);
    const CommandResult packed =
        trireme(fmt::format("data pack-text --quiet --out {0}/data {0}/bytes", directory()));
    EXPECT_EQ(packed.exit_code, 0) << packed.output;
  }

  // Continues until `last_step`.
  std::vector<LoggedStep> train(const std::string& name, int ranks, std::size_t global_batch,
                                std::size_t last_step, std::vector<std::string> set = {}) {
    for (const char* const common :
         {"reproducibility=layout", "optimizer.learning_rate=0", "optimizer.weight_decay=0",
          "lr_schedule.name=constant", "parallel.tensor_blocks=2", "train.micro_batch=1",
          "checkpoint.every_steps=1"})
      set.emplace_back(common);
    set.push_back(
        fmt::format("data.path={0}/data --set data.validation_path={0}/data", directory()));
    set.push_back(fmt::format("train.global_batch={}", global_batch));
    set.push_back(fmt::format("train.steps={}", last_step));
    const CommandResult result = train_gpt(name, ranks, set);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return steps_of(name);
  }
};

TEST_F(OrderTest, EverySampleIsSeenOnceThoughTheNumberOfRanksChangesWithinAnEpoch) {
  const std::vector<LoggedStep> single = train("single", 1, 1, steps * batch);
  ASSERT_EQ(single.size(), steps * batch);
  std::set<double> epoch;
  for (std::size_t i = 0; i < samples; ++i)
    epoch.insert(single[i].loss);
  ASSERT_EQ(epoch.size(), samples) << "a sample was seen twice, or two have the same loss";
  std::set<double> half;
  for (std::size_t i = samples; i < single.size(); ++i)
    half.insert(single[i].loss);
  ASSERT_EQ(half.size(), single.size() - samples);
  EXPECT_TRUE(std::ranges::includes(epoch, half)) << "the second epoch has other samples";

  const std::vector<LoggedStep> whole = train("whole", 1, batch, steps);
  // Steps 1 to 2, 3 to 5 and 6 to 9 of 6 steps per epoch.
  train("changing", 1, batch, 2);
  train("changing", 2, batch, 5, {"parallel.zero=1"});
  const std::vector<LoggedStep> changing = train("changing", 4, batch, steps);

  ASSERT_EQ(whole.size(), steps);
  ASSERT_EQ(changing.size(), steps);
  for (std::size_t step = 0; step < steps; ++step) {
    double sum = 0;
    for (std::size_t i = 0; i < batch; ++i)
      sum += single[step * batch + i].loss;
    EXPECT_NEAR(whole[step].loss, sum / batch, 1e-5) << "step " << step + 1;
    EXPECT_EQ(changing[step].loss, whole[step].loss) << "step " << step + 1;
  }
}

}  // namespace
}  // namespace trireme::test
