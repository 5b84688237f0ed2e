// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/same_on_all_ranks.h"

#include "runtime/base/environment.h"
#include "tests/support/expect_error.h"
#include "tests/support/mpi_test.h"

namespace trireme {
namespace {

class SameOnAllRanks : public test::MpiTest {
 protected:
  void expect_refused(const std::string& text, const std::string& part) {
    test::expect_error(
        ExitCode::config, [&] { check_same_on_all_ranks(world(), "the config", text); },
        "ranks disagree on the config", part);
  }
  [[nodiscard]] bool odd() const { return rank() == 1; }
  static std::string on(int rank) { return fmt::format("on rank {} on {}", rank, host_name()); }
};

TEST_F(SameOnAllRanks, EqualTextAndBytesPass) {
  const std::string text = "run:\n  seed: 1\n";

  check_same_on_all_ranks(world(), "the config", text);
  check_same_on_all_ranks(world(), "the config", "");
  check_same_on_all_ranks(world(), "the tables", std::as_bytes(std::span(text)));
  EXPECT_EQ(world().stats()[Verb::broadcast].calls, 0U);
}

TEST_F(SameOnAllRanks, NamesTheFirstLineThatDiffers) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const std::string own = odd() ? "1235" : "1234";

  expect_refused(
      "run:\n  seed: " + own + "\n  directory: a\n",
      "line 2 is \"  seed: 1234\" " + on(0) + " (33 bytes in all) and \"  seed: 1235\" " + on(1));
}

TEST_F(SameOnAllRanks, NamesALineThatOneRankLacks) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";

  expect_refused(
      odd() ? "a: 1\n" : "a: 1\nb: 2\n",
      "line 2 is \"b: 2\" " + on(0) + " (10 bytes in all) and (nothing) " + on(1) + " (5 bytes)");
  expect_refused(odd() ? "a: 1\n" : "",
                 "line 1 is (nothing) " + on(0) + " (0 bytes in all) and \"a: 1\"");
}

TEST_F(SameOnAllRanks, NamesTheFirstRankThatDiffersFromRank0) {
  if (size() < 4) GTEST_SKIP() << "needs four ranks";

  expect_refused(rank() < 2 ? "x" : "y",
                 "line 1 is \"x\" " + on(0) + " (1 bytes in all) and \"y\" " + on(2));
}

TEST_F(SameOnAllRanks, NamesTheDigestsOfBytes) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const std::string own = odd() ? "12345" : "1234";

  test::expect_error(
      ExitCode::config,
      [&] { check_same_on_all_ranks(world(), "the tables", std::as_bytes(std::span(own))); },
      "ranks disagree on the tables: rank 0 on " + host_name() + " has 4 bytes with XXH3 ",
      "rank 1 on " + host_name() + " has 5 bytes");
}

TEST_F(SameOnAllRanks, AFactNamesWhichRanksOnWhichHostsHaveWhat) {
  SharedFact fact{.name = "the program",
                  .value = "0.1.0 (v0.1.0-12-gabcdef, GNU 12.2.0, Release)",
                  .place = "/opt/here"};
  check_same_on_all_ranks(world(), fact);
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  fact.place = odd() ? "/opt/there" : "/opt/here";
  check_same_on_all_ranks(world(), fact);
  if (odd()) fact.value = "0.1.0 (v0.1.0-13-g012345, GNU 12.2.0, Release)";
  fact.code = ExitCode::data;
  fact.advice = "install the same build";

  test::expect_error(
      ExitCode::data, [&] { check_same_on_all_ranks(world(), fact); },
      "the program: ranks disagree: ",
      fmt::format("{} on {} {} 0.1.0 (v0.1.0-12-gabcdef, GNU 12.2.0, Release) in /opt/here, rank 1 "
                  "on {} has 0.1.0 (v0.1.0-13-g012345, GNU 12.2.0, Release) in /opt/there; install "
                  "the same build",
                  size() == 2 ? "rank 0" : "ranks 0, 2, 3", host_name(),
                  size() == 2 ? "has" : "have", host_name()));
}

TEST_F(SameOnAllRanks, ResultsAreGatheredAndAnErrorIsRaisedOnAllRanks) {
  const auto texts =
      gather_or_raise(world(), [&] { return std::string(static_cast<std::size_t>(rank()), 'x'); });
  for (int other = 0; other < size(); ++other)
    EXPECT_EQ(texts.at(static_cast<std::size_t>(other)).size(), static_cast<std::size_t>(other));
  // The error of the last rank, or of the one before it if that has another.
  const int last = size() - 1;
  test::expect_error(
      size() > 2 ? ExitCode::checkpoint : ExitCode::data,
      [&] {
        static_cast<void>(gather_or_raise(world(), [&]() -> std::string {
          if (rank() == last) fail(ExitCode::data, "the mistake of rank {}", rank());
          if (rank() == last - 1 && last > 1) fail(ExitCode::checkpoint, "of rank {}", rank());
          return "good";
        }));
      },
      fmt::format("of rank {}", size() > 2 ? last - 1 : last));
}

}  // namespace
}  // namespace trireme
