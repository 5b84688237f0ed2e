// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include "runtime/base/terminal.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;

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

TEST_F(LogTest, LineCarriesDateLevelRankSubsystemAndMessage) {
  log::initialize(0);

  const std::string line = printed_by([] { log::get("data").info("{} shards", 3); });

  EXPECT_THAT(line,
              ContainsRegex("^\\[[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]{12}\\] \\[info\\] \\[0\\] "
                            "\\[data\\] .*3 shards"));
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

TEST_F(LogTest, DetailsAreShownOnRequestByRank0) {
  log::initialize(0);
  EXPECT_THAT(printed_by([] { log::get("train").debug("detail"); }), IsEmpty());

  log::show_details();

  EXPECT_THAT(printed_by([] { log::get("train").debug("detail"); }), HasSubstr("detail"));
  log::initialize(3);
  EXPECT_THAT(printed_by([] { log::get("train").debug("detail"); }), IsEmpty());
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

TEST_F(LogTest, AKeptLogHasEarlierLinesTheLoggersAndTheConsolesInOneForm) {
  const test::TemporaryDirectory place;
  const std::string path = place.file("console.log");
  test::write_text(path, "of an earlier start\n");

  static_cast<void>(printed_by([&] {
    log::get("kept").warn("before");
    log::keep_in(path);
    log::get("kept").info("after");
    log::get("kept").debug("detail");
    log::keep(spdlog::level::err, "job", "first\nsecond\n");
  }));
  log::keep_in(place.file("another.log"));
  log::keep(spdlog::level::info, "job", "elsewhere");

  const std::string head = "\\[[-0-9]{10} [0-9:.]{12}\\] ";
  EXPECT_THAT(test::read_text(path), MatchesRegex("of an earlier start\n(.*\n)?" + head +
                                                  "\\[warning\\] \\[0\\] \\[kept\\] before\n" +
                                                  head + "\\[info\\] \\[0\\] \\[kept\\] after\n" +
                                                  head + "\\[debug\\] \\[0\\] \\[kept\\] detail\n" +
                                                  head + "\\[error\\] \\[0\\] \\[job\\] first\n" +
                                                  head + "\\[error\\] \\[0\\] \\[job\\] second\n"));
}

TEST_F(LogTest, ControlCharactersAreEscapedAndLongMessagesAreCut) {
  const test::TemporaryDirectory place;

  const std::string printed = printed_by([&] {
    log::keep_in(place.file("console.log"));
    log::get("kept").warn("a\x1b[31m\r\x7f\xc2\x9b\xc3\x9b\n\tb");
    log::get("kept").warn("{}", std::string(100000, 'x'));
  });
  log::keep_in(place.file("another.log"));

  for (const std::string& text : {printed, test::read_text(place.file("console.log"))}) {
    EXPECT_THAT(text, HasSubstr("a\\u001b[31m\\u000d\\u007f\\u009b\xc3\x9b\n\tb"));
    EXPECT_THAT(text, HasSubstr("xxx ... (83616 characters left out) ... xxx"));
    EXPECT_LT(text.size(), 20000U);
  }
  EXPECT_EQ(without_controls("\x9b"
                             "31m",
                             '\xc2'),
            "\\u009b31m");
}

TEST_F(LogTest, AnUnwritablePlaceIsNoErrorAndNoLinkIsFollowed) {
  const test::TemporaryDirectory place;
  ASSERT_EQ(::mkfifo(place.file("fifo").c_str(), 0600), 0);
  test::write_text(place.file("target"), "");
  std::filesystem::create_symlink(place.file("target"), place.file("link"));

  static_cast<void>(printed_by([&] {
    for (const char* const name : {"no/such/directory", "fifo", "link"}) {
      log::keep_in(place.file(name));
      log::get("kept").warn("lost");
      log::keep(spdlog::level::err, "job", "lost");
    }
    log::initialize(3);
    log::keep_in(place.file("of_rank_0"));
  }));

  EXPECT_EQ(test::read_text(place.file("target")), "");
  EXPECT_FALSE(std::filesystem::exists(place.file("of_rank_0")));
}

}  // namespace
}  // namespace trireme
