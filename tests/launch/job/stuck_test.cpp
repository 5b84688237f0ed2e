// SPDX-License-Identifier: Apache-2.0
// Ranks that die or stop in the middle of a step: the job ends by itself and names the missing
// rank.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <thread>

#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ContainsRegex;
using testing::HasSubstr;

class StuckTest : public RunTest {
 protected:
  static constexpr double deadline = 3;

  void TearDown() override {
    for (const auto& [pid, rank] : ranks_of_run())
      kill(pid, SIGKILL);
  }

  // Starts an endless run, sends `signal` to rank `rank` once steps are being logged, and waits for
  // the end of all ranks, which is timed, and of the launcher.
  CommandResult strike(int ranks, int rank, int signal, std::vector<std::string> set) {
    for (const char* const endless : {"train.steps=1000000", "train.log_every=100000",
                                      "parallel.timeout_seconds=3", "model.heads=4"})
      set.emplace_back(endless);
    auto job = std::async(std::launch::async, [&] { return train_gpt("run", ranks, set); });
    const bool runs = wait_until(30, [&] { return logged_bytes() > 2000; });
    EXPECT_TRUE(runs) << "no steps were logged";
    for (const auto& [pid, of] : ranks_of_run()) {
      if (of != rank) continue;
      EXPECT_EQ(kill(pid, signal), 0);
      struck_ = std::chrono::steady_clock::now();
    }
    EXPECT_NE(struck_, std::chrono::steady_clock::time_point{}) << "rank not found";
    EXPECT_TRUE(wait_until(60, [&] { return ranks_of_run().empty(); })) << "ranks were left behind";
    seconds_after_ =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - struck_).count();
    return job.get();
  }

  void expect_report(const CommandResult& result, const testing::Matcher<std::string>& message) {
    EXPECT_EQ(result.exit_code, 5) << result.output;
    EXPECT_THAT(result.output, message);
    EXPECT_GT(seconds_after_, deadline - 1);
    EXPECT_LT(seconds_after_, deadline + 10) << result.output;
  }

  // The rank's last calls, with the unfinished one.
  void expect_dump(int rank, const std::string& pending) const {
    const std::string dump =
        read_file(directory() + "/run/collectives.rank" + std::to_string(rank) + ".txt");
    EXPECT_THAT(dump, AllOf(HasSubstr("rank " + std::to_string(rank)), ContainsRegex(pending)));
  }

  void expect_end(const CommandResult& result) const {
    EXPECT_NE(result.exit_code, 0) << result.output;
    EXPECT_NE(result.exit_code, 124) << "the job went on without a rank";
    EXPECT_LT(seconds_after_, 5) << result.output;
  }

 private:
  template <typename Condition>
  static bool wait_until(int seconds, const Condition& condition) {
    for (int i = 0; i < seconds * 20; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }

  std::uintmax_t logged_bytes() const {
    std::error_code none;
    const auto size = std::filesystem::file_size(directory() + "/run/metrics.jsonl", none);
    return none ? 0 : size;
  }

  // Processes of the run with their ranks, from mpirun's environment variables.
  std::vector<std::pair<pid_t, int>> ranks_of_run() const {
    const std::string key = "OMPI_COMM_WORLD_RANK=";
    std::vector<std::pair<pid_t, int>> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      try {
        const std::string environment = '\0' + read_file("/proc/" + name + "/environ");
        const auto at = environment.find('\0' + key);
        if (at == std::string::npos) continue;
        if (read_file("/proc/" + name + "/cmdline").find(directory()) == std::string::npos)
          continue;
        found.emplace_back(std::stoi(name), std::stoi(environment.substr(at + 1 + key.size())));
      } catch (const std::exception&) {
        continue;  // it ended meanwhile
      }
    }
    return found;
  }

  std::chrono::steady_clock::time_point struck_{};
  double seconds_after_ = 0;
};

// Rank 1 stops at an arbitrary place; rank 0 then waits for an activation, a gradient or the norm.
TEST_F(StuckTest, AStoppedPipelineStageIsNamedWithGroupAndCall) {
  const CommandResult result = strike(2, 1, SIGSTOP, {"parallel.pipeline=2"});

  expect_report(result,
                AllOf(HasSubstr("rank 1"), HasSubstr("does not answer"),
                      ContainsRegex("group (pipeline[.a-z0-9]*|model): [a-z_]+[(].* number [0-9]+"),
                      HasSubstr("parallel.timeout_seconds: 3")));
  expect_dump(0, "started[^\n]* number [0-9]+");
}

TEST_F(StuckTest, AStoppedZeroRankIsNamedWithGroupAndCall) {
  const CommandResult result = strike(2, 1, SIGSTOP, {"parallel.zero=3"});

  expect_report(result, AllOf(HasSubstr("rank 1"), HasSubstr("does not answer"),
                              ContainsRegex("group (data|zero[.]gather): "),
                              AnyOf(HasSubstr("all_gather"), HasSubstr("reduce_scatter"),
                                    HasSubstr("all_reduce")),
                              HasSubstr("parallel.timeout_seconds: 3")));
}

TEST_F(StuckTest, AStoppedFirstRankIsNamedByTheOthers) {
  expect_report(strike(2, 0, SIGSTOP, {"parallel.pipeline=2", "parallel.schedule=zero-bubble"}),
                AllOf(HasSubstr("rank 0"), HasSubstr("does not answer")));
}

TEST_F(StuckTest, AKilledPipelineStageEndsTheJob) {
  expect_end(strike(4, 2, SIGKILL, {"parallel.pipeline=4", "parallel.zero=1"}));
}

TEST_F(StuckTest, AKilledZeroRankEndsTheJob) {
  expect_end(strike(4, 3, SIGKILL, {"parallel.zero=2", "parallel.tensor=2"}));
}

}  // namespace
}  // namespace trireme::test
