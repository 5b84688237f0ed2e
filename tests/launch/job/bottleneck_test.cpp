// SPDX-License-Identifier: Apache-2.0
// Runs with one fault each, which the bottleneck must name: slow links, a rank without a core, a
// slow disk, shared cores, a delayed rank.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sched.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/launch/fixture/launcher.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

// The cores that this test may use.
std::vector<int> cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ::sched_getaffinity(0, sizeof(allowed), &allowed);
  std::vector<int> numbers;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) numbers.push_back(core);
  }
  return numbers;
}

class BottleneckTest : public RunTest {
 protected:
  // Two ranks, each with its own command prefix; returns the bottleneck.
  [[nodiscard]] std::string bottleneck_of(const std::string& first, const std::string& second,
                                          const std::string& set = "") {
    const std::string train = fmt::format(
        "{} train {}/gpt.yaml --set run.directory={}/run --set device.type=cpu "
        "--set data.validation_path= {}",
        TRIREME_BINARY, data_directory(), directory(), set);
    const CommandResult result =
        run_each(directory(), {first + " " + train, second + " " + train}, "--bind-to none");
    EXPECT_EQ(result.exit_code, 0) << result.output;
    expect_parts_add_up();
    const auto begin = result.output.find("bottleneck: ");
    return begin == std::string::npos
               ? result.output
               : result.output.substr(begin, result.output.find('\n', begin) - begin);
  }

 private:
  void expect_parts_add_up() const {
    std::istringstream lines(read_file(directory() + "/run/metrics.jsonl"));
    int steps = 0;
    for (std::string line; std::getline(lines, line);) {
      const auto step = nlohmann::json::parse(line);
      double sum = 0;
      for (const char* const part : {"forward_ms", "backward_ms", "optimizer_ms", "data_wait_ms",
                                     "exposed_comm_ms", "straggler_ms", "bubble_ms", "other_ms"})
        sum += step.at(part).get<double>();
      EXPECT_NEAR(sum, step.at("step_ms").get<double>(), 0.01) << line;  // 8 roundings
      ++steps;
    }
    EXPECT_GE(steps, 4);
  }
};

TEST_F(BottleneckTest, TensorGroupsOnASlowLinkWaitForCommunication) {
  if (cores().size() < 2) GTEST_SKIP() << "two ranks that share a core wait for it longer";
  const std::string slow =
      fmt::format("env LD_PRELOAD={} TRIREME_TEST_ISEND_MS=3", TRIREME_SLOW_CALLS);

  EXPECT_THAT(bottleneck_of(slow, slow, "--set parallel.tensor=2 --set train.steps=4"),
              AllOf(HasSubstr("bottleneck: exposed communication"),
                    HasSubstr("lower parallel.tensor"), Not(HasSubstr("train.global_batch"))));
}

TEST_F(BottleneckTest, ASlowDiskOfOneRankIsItsDataWait) {
  const std::string slow =
      fmt::format("env LD_PRELOAD={} TRIREME_TEST_PREAD_MS=40", TRIREME_SLOW_CALLS);

  EXPECT_THAT(bottleneck_of("env", slow), HasSubstr("bottleneck: data wait of rank 1 on "));
}

TEST_F(BottleneckTest, RanksOnOneCoreAreReportedAsSharing) {
  const std::string on_one = fmt::format("taskset -c {}", cores().front());

  EXPECT_THAT(bottleneck_of(on_one, on_one, "--set train.steps=20 --set model.hidden=256"),
              HasSubstr("ranks share cores: start at most one rank per core"));
}

TEST_F(BottleneckTest, ARankBesideABusyProgramIsTheStraggler) {
  if (cores().size() < 2) GTEST_SKIP() << "needs two cores";
  const std::string beside = directory() + "/beside.sh";
  // The program ends with the rank, whatever becomes of the test.
  write_file(beside, fmt::format("taskset -c {0} sh -c 'while kill -0 '$$' 2>/dev/null; do "
                                 "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; done' &\n"
                                 "exec taskset -c {0} nice -n 10 \"$@\"\n",
                                 cores().back()));

  // On a busy machine rank 0 may also lack its core; then both wait for cores.
  EXPECT_THAT(bottleneck_of(fmt::format("taskset -c {}", cores().front()), "bash " + beside,
                            "--set train.steps=4 --set model.hidden=96"),
              AllOf(AnyOf(HasSubstr("bottleneck: straggler rank 1 on "),
                          HasSubstr("bottleneck: CPU contention")),
                    Not(HasSubstr("global_batch"))));
}

// Beside three programs that never rest on two cores of this machine.
class BusyTest : public BottleneckTest, public testing::WithParamInterface<const char*> {
 protected:
  // They end with the command, whatever becomes of the test.
  [[nodiscard]] std::string bottleneck_beside_programs(int ranks, const std::string& set) {
    const std::string beside = directory() + "/beside.sh";
    write_file(beside,
               "for i in 1 2 3; do sh -c 'while kill -0 '$$' 2>/dev/null; do i=0; "
               "while [ $i -lt 20000 ]; do i=$((i+1)); done; done' & done\nexec \"$@\"\n");
    const std::string two = fmt::format("{},{}", cores().front(), cores().back());
    const CommandResult result = run_command(fmt::format(
        "taskset -c {} bash {} {} --bind-to none --oversubscribe -np {} {} train {}/gpt.yaml "
        "--overwrite --set run.directory={}/run --set device.type=cpu "
        "--set data.validation_path= {}",
        two, beside, TRIREME_MPIEXEC, ranks, TRIREME_BINARY, data_directory(), directory(), set));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    const auto begin = result.output.find("bottleneck: ");
    return result.output.substr(begin == std::string::npos ? 0 : begin);
  }
};

// Repeated if the machine had free cores after all.
TEST_P(BusyTest, TheCoresThatWereWaitedForAreNamedNotFilesNorTheNetwork) {
  const std::string layout = GetParam();
  const int ranks = layout.empty() ? 1 : 2;
  constexpr int tries = 4;
  std::string bottleneck;
  for (int i = 0; i < tries && bottleneck.find("CPU contention") == std::string::npos; ++i)
    bottleneck = bottleneck_beside_programs(ranks, layout + " --set train.steps=60");

  EXPECT_THAT(bottleneck,
              AllOf(HasSubstr("bottleneck: CPU contention"), HasSubstr("other processes used"),
                    Not(HasSubstr("files")), Not(HasSubstr("network"))));
}

INSTANTIATE_TEST_SUITE_P(Layouts, BusyTest,
                         testing::Values("", "--set parallel.tensor=2", "--set parallel.data=2"));

class LayoutAdviceTest : public RunTest {
 protected:
  // The layouts that the planner estimates when the steps of a run of two stages are over.
  [[nodiscard]] std::string estimates(const std::string& set) {
    const CommandResult result = run_command(fmt::format(
        "env TRIREME_LOG=debug {} --oversubscribe -np 2 {} train {}/gpt.yaml --overwrite "
        "--set run.directory={}/run --set data.validation_path= --set parallel.pipeline=2 {}",
        TRIREME_MPIEXEC, TRIREME_BINARY, data_directory(), directory(), set));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    std::string text;
    std::istringstream lines(result.output);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("% of the time") != std::string::npos) text += line + "\n";
    }
    return text;
  }
};

// Noisy links prevent an answer; such a run is repeated.
TEST_F(LayoutAdviceTest, EstimatesOtherLayoutsAfterALongRunOnly) {
  if (cores().size() < 2) GTEST_SKIP() << "two ranks share a core";
  constexpr int tries = 5;
  std::string found;
  for (int i = 0; i < tries && found.empty(); ++i)
    found = estimates("--set train.steps=40");

  EXPECT_THAT(found, AllOf(HasSubstr("parallel.schedule=zero-bubble: "),
                           HasSubstr("parallel.pipeline=1 parallel.data=2: ")));
  EXPECT_EQ(estimates(""), "");
}

// The delay of a rank of trireme_delayed, and the expected bottleneck.
struct Slowed {
  const char* layout;  // settings
  int ranks, rank;
  const char* place;
  double milliseconds;  // a step; of checkpoints, each
  const char* cause;
};

class DelayTest : public RunTest, public testing::WithParamInterface<Slowed> {};

// The share of `output`'s time of CPU contention, in percent.
double cpu_contention(const std::string& output) {
  const std::regex share(R"(CPU contention ([\d.]+) %)");
  std::smatch found;
  return std::regex_search(output, found, share) ? std::stod(found[1]) : 0;
}

// Every rank's steps sleep 50 ms, so that they last equally long on a busy machine. Compared with
// the slept time, not with step times; tests/checks/check_bottleneck.py checks more cases, more
// closely. If other processes take the cores the bottleneck rightly says so; such a run is
// repeated.
TEST_P(DelayTest, TheRankItsCauseAndTheSecondsAreNamed) {
  const Slowed& slowed = GetParam();
  const std::string total = directory() + "/total";
  const std::string command = fmt::format(
      "env TRIREME_TEST_DELAY=compute:all:50,{0}:{1}:{2} TRIREME_TEST_DELAY_TOTAL={3} {4} "
      "--bind-to none --oversubscribe -np {5} {6} train {7}/gpt.yaml --overwrite "
      "--set run.directory={8}/run --set device.type=cpu --set data.validation_path= "
      "--set train.steps=22 --set train.micro_batch=4 --set train.log_every=100 {9}",
      slowed.place, slowed.rank, slowed.milliseconds, total, TRIREME_MPIEXEC, slowed.ranks,
      TRIREME_DELAYED, data_directory(), directory(), slowed.layout);
  constexpr double disturbed = 10;  // percent
  constexpr int tries = 4;

  CommandResult result;
  for (int i = 0; i < tries && (i == 0 || cpu_contention(result.output) > disturbed); ++i) {
    result = run_command(command);
    ASSERT_EQ(result.exit_code, 0) << result.output;
  }

  const double slept = 1e-3 * std::stod(read_file(total));
  ASSERT_GT(slept, 0.1);
  const std::regex late(
      R"([\n ]rank (\d+) on \S+ arrives \S+ ms late at \d+ % of steps: (.*), ([\d.]+) s in all)");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(result.output, found, late)) << result.output;
  EXPECT_EQ(found[1], std::to_string(slowed.rank)) << result.output;
  EXPECT_THAT(found[2].str(), testing::StartsWith(slowed.cause)) << result.output;
  EXPECT_NEAR(std::stod(found[3]), slept, 0.25 * slept) << result.output;
}

INSTANTIATE_TEST_SUITE_P(
    OfPlacesAndLayouts, DelayTest,
    testing::Values(Slowed{"--set parallel.data=2", 2, 1, "compute", 15,
                           "its own work takes longer"},
                    Slowed{"--set parallel.tensor=2", 2, 1, "batch", 15, "it waits for its data"},
                    Slowed{"--set parallel.pipeline=2 --set parallel.data=2", 4, 3, "compute", 30,
                           "its own work takes longer"},
                    Slowed{"--set parallel.zero=3", 2, 0, "batch", 15, "it waits for its data"},
                    Slowed{"--set parallel.data=2 --set checkpoint.every_steps=5", 2, 1,
                           "checkpoint", 100, "its checkpoints take longer"}));

}  // namespace
}  // namespace trireme::test
