// SPDX-License-Identifier: Apache-2.0
// trireme bench checkpoint prints its figures, and leaves no files behind.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "launch/bench/checkpoint/checkpoint_rates.h"
#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

class BenchCheckpointTest : public RunTest {
 protected:
  [[nodiscard]] CommandResult bench(const std::string& arguments) const {
    std::filesystem::create_directory(disk());
    return trireme(fmt::format("bench checkpoint {} --directory {} --rounds 3 --json {}", arguments,
                               disk(), results()),
                   2);
  }
  [[nodiscard]] std::string disk() const { return directory() + "/disk"; }
  [[nodiscard]] std::string results() const { return directory() + "/results.json"; }
};

TEST_F(BenchCheckpointTest, MeasuresEverySideInEveryRound) {
  const CommandResult result = bench("--megabytes 3");

  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto json = nlohmann::json::parse(read_file(results()));
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_NEAR(json["bytes"].get<double>(), 3e6, 0.2e6);
  for (const char* side :
       {"plain_write", "save", "copy", "plain_read_warm", "verify_warm", "restore_warm"}) {
    ASSERT_EQ(json["seconds"][side].size(), 3U) << side;
    for (const double seconds : json["seconds"][side])
      EXPECT_GT(seconds, 0) << side;
  }
  // A memory file system has no cold reads.
  const auto cold = json["seconds"]["plain_read_cold"].size();
  EXPECT_LE(cold, 3U);
  EXPECT_EQ(json["seconds"]["restore_cold"].size(), cold);
  // The page cache is dropped before the warm reads.
  ASSERT_EQ(json["warm_share"].size(), 3U);
  for (const double share : json["warm_share"])
    EXPECT_EQ(share, 1);
  EXPECT_TRUE(std::filesystem::is_empty(disk()));
}

TEST_F(BenchCheckpointTest, MeasuresTheStepsOfAConfigBesideItsSaves) {
  const CommandResult result = bench(data_directory() + "/gpt.yaml --set parallel.zero=3");

  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("save() held training for"));
  const auto stall = nlohmann::json::parse(read_file(results()))["stall"];
  EXPECT_GE(stall["steps"], 2);
  EXPECT_EQ(stall["longer_ms"].size(), 3U);
  for (const double held : stall["held_ms"])
    EXPECT_GT(held, 0);
  EXPECT_TRUE(std::filesystem::is_empty(disk()));
}

TEST(StepStall, StallsBelowTheVariationOfStepsAreNoise) {
  StepStall stall{.steps = 4,
                  .plain = {100, 100, 100},
                  .longer = {5, 9, 7},
                  .copy = {2, 2, 2},
                  .held = {3, 3, 3}};
  EXPECT_THAT(stall_text(stall),
              HasSubstr("7.0 ms longer, 5.0 % of a step beyond copying (3.0 to 7.0 %)"));

  // A round with a save was shorter than the one without.
  stall.longer = {-55, 9, 7};
  EXPECT_THAT(stall_text(stall),
              HasSubstr("no longer than the noise: -57.0 to 7.0 % of a step in 3 rounds"));
  EXPECT_THAT(stall_text(stall), testing::Not(HasSubstr("ms longer")));
}

TEST_F(BenchCheckpointTest, RefusesADirectoryThatCannotBeWritten) {
  write_file(directory() + "/file", "");

  const CommandResult result =
      trireme(fmt::format("bench checkpoint --directory {}/file", directory()), 2);

  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("/file/trireme_bench_checkpoint"));
}

}  // namespace
}  // namespace trireme::test
