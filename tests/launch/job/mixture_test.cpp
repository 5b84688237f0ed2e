// SPDX-License-Identifier: Apache-2.0
// Runs on several sources at once.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/data/make_megatron.h"
#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

class MixtureTest : public RunTest {
 protected:
  // Three quarters of text, one of other text, and from the third step on tokens of Megatron-LM.
  void SetUp() override {
    std::vector<std::int64_t> tokens;
    for (int i = 0; i < 4000; ++i)
      tokens.push_back(i * i % 97);
    write_file(directory() + "/tokens.idx", megatron_index({1000, 3000}, {0, 1, 2}, 8));
    write_file(directory() + "/tokens.bin", megatron_data<std::uint16_t>(tokens));
  }
  [[nodiscard]] std::vector<std::string> mixed(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> set = {
        "data.path=''",
        fmt::format("data.sources=[{0}/text/train,{0}/text/validation,{1}/tokens]",
                    data_directory(), directory()),
        "data.weights=[3,1,2]",
        "data.source_from=[0,0,2]",
        "reproducibility=layout",
        "lr_schedule.name=constant",
        "checkpoint.every_steps=3"};
    set.insert(set.end(), more.begin(), more.end());
    return set;
  }
  [[nodiscard]] std::vector<double> losses_of(const std::string& name) const {
    std::vector<double> losses;
    for (const LoggedStep& step : steps_of(name))
      losses.push_back(step.loss);
    return losses;
  }
};

TEST_F(MixtureTest, HasTheSameBitsOnOneAndTwoRanksAndAfterAStop) {
  const CommandResult one = train_gpt("one", 0, mixed());
  ASSERT_EQ(one.exit_code, 0) << one.output;
  EXPECT_THAT(one.output, HasSubstr("% of the run"));
  const CommandResult two = train_gpt("two", 2, mixed());
  ASSERT_EQ(two.exit_code, 0) << two.output;
  for (const char* const steps : {"train.steps=3", "train.steps=6"}) {
    const CommandResult part = train_gpt("part", 2, mixed({steps}));
    ASSERT_EQ(part.exit_code, 0) << part.output;
  }

  EXPECT_EQ(losses_of("one").size(), 6U);
  EXPECT_EQ(losses_of("one"), losses_of("two"));
  EXPECT_EQ(losses_of("one"), losses_of("part"));
  EXPECT_EQ(weights_of("one"), weights_of("part"));
}

TEST_F(MixtureTest, DoesNotGoOnWithSourcesThatAreMixedInAnotherWay) {
  const CommandResult first = train_gpt("run", 0, mixed({"train.steps=3"}));
  ASSERT_EQ(first.exit_code, 0) << first.output;

  const CommandResult other = train_gpt("run", 0, mixed({"data.weights=[3,1,1]"}));

  EXPECT_EQ(other.exit_code, 2) << other.output;
  EXPECT_THAT(other.output, HasSubstr("mixed in the same way"));
}

TEST_F(MixtureTest, RefusesWhatCannotBeMixedByTheKeyThatSaysIt) {
  const auto refused = [&](const std::vector<std::string>& more, int code,
                           const std::string& part) {
    const CommandResult result = train_gpt("none", 0, mixed(more));
    EXPECT_EQ(result.exit_code, code) << result.output;
    EXPECT_THAT(result.output, HasSubstr(part));
  };
  refused({"data.weights=[1,2]"}, 2, "data.weights=[1,2]: has 2 values for 3 data.sources");
  refused({"data.source_until=[0,0,2]"}, 2, "would leave the mixture at step 2 and join it at 2");
  refused({"data.path=" + data_directory() + "/text/train"}, 2, "data.sources");
  refused({"data.last_batch=pad"}, 2, "data.last_batch");
  refused({"data.source_until=[1,1,5]"}, 2, "none is in the mixture at step 1");
  refused(
      {"data.sources=[" + data_directory() + "/none]", "data.weights=[]", "data.source_from=[]"}, 3,
      "no such file or directory");
}

}  // namespace
}  // namespace trireme::test
