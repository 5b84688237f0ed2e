// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

namespace trireme {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;

class LogTest : public testing::Test {
 protected:
  void SetUp() override { unsetenv("TRIREME_LOG"); }
  void TearDown() override {
    unsetenv("TRIREME_LOG");
    log::initialize(0);
  }

  template <typename Action>
  static std::string printed_by(Action&& action) {
    testing::internal::CaptureStderr();
    action();
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(LogTest, LineCarriesTimeRankSubsystemAndMessage) {
  log::initialize(0);

  const std::string line = printed_by([] { log::get("data").info("{} shards", 3); });

  EXPECT_THAT(line, ContainsRegex("^\\[[0-9:.]+\\] \\[0\\] \\[data\\] .*3 shards"));
}

TEST_F(LogTest, OtherRanksPrintOnlyWarningsAndErrors) {
  log::initialize(3);

  const std::string lines = printed_by([] {
    log::get("comm").info("quiet");
    log::get("comm").warn("loud");
  });

  EXPECT_THAT(lines, HasSubstr("[3] [comm]"));
  EXPECT_THAT(lines, HasSubstr("loud"));
  EXPECT_EQ(lines.find("quiet"), std::string::npos);
}

TEST_F(LogTest, EnvironmentSetsTheLevelOfEveryRank) {
  setenv("TRIREME_LOG", "debug", 1);
  log::initialize(2);

  EXPECT_THAT(printed_by([] { log::get("train").debug("detail"); }), HasSubstr("detail"));

  setenv("TRIREME_LOG", "error", 1);
  log::initialize(0);

  EXPECT_THAT(printed_by([] { log::get("train").warn("hidden"); }), IsEmpty());
}

TEST_F(LogTest, MisspelledLevelDoesNotSilenceTheRun) {
  setenv("TRIREME_LOG", "verbose", 1);
  log::initialize(0);

  EXPECT_THAT(printed_by([] { log::get("train").info("still here"); }), HasSubstr("still here"));
}

TEST_F(LogTest, InitializeReachesLoggersMadeBefore) {
  static_cast<void>(log::get("early"));
  log::initialize(5);

  EXPECT_THAT(printed_by([] { log::get("early").warn("now"); }), HasSubstr("[5] [early]"));
}

TEST_F(LogTest, OneSubsystemHasOneLoggerForAllThreads) {
  std::vector<spdlog::logger*> seen(8);
  std::vector<std::thread> threads;

  for (auto& logger : seen)
    threads.emplace_back([&logger] { logger = &log::get("shared"); });
  for (auto& thread : threads)
    thread.join();

  EXPECT_EQ((std::set<spdlog::logger*>(seen.begin(), seen.end()).size()), 1U);
}

}  // namespace
}  // namespace trireme
