// SPDX-License-Identifier: Apache-2.0
// Signals during a checkpoint, and ranks that signals end: the run directory stays consistent, and
// resumes with the same bits.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

class SignalsTest : public RunTest {
 protected:
  // A run of two ranks under launch/mpi_run.sh (or `launcher`), with saves slowed by `save_ms` per
  // fsync, during the shell text `meanwhile`, where $job is the launcher and $run the directory.
  CommandResult run_with(const std::string& settings, int save_ms, const std::string& meanwhile,
                         const std::string& launcher = TRIREME_MPI_RUN " -np 2") {
    const std::string script = directory() + "/script.sh";
    write_file(script,
               fmt::format(
                   "set -m\n"  // else a background job ignores interrupts
                   "run={0}/run\n"
                   // Waits for a path, or the end of the job.
                   "await() {{ until compgen -G \"$1\" >/dev/null || ! kill -0 $job; do sleep "
                   "0.01; done; }}\n"
                   "export TRIREME_TEST_FSYNC_MS={1} TRIREME_GRACE_SECONDS=3\n"
                   "{2} env LD_PRELOAD={3} ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 {4} "
                   "train {5}/gpt.yaml --set run.directory=$run "
                   "--set reproducibility=layout --set parallel.tensor_blocks=2 {6} & job=$!\n"
                   "{7}\n"
                   "wait $job; code=$?\n"
                   "pgrep -f \"run.directory=$run \" && echo left behind\n"
                   "exit $code\n",
                   directory(), save_ms, launcher, TRIREME_SLOW_CALLS, TRIREME_BINARY,
                   data_directory(), settings, meanwhile));
    return run_command("bash " + script, 120);
  }

  std::vector<std::string> checkpoints() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory() + "/run/checkpoints"))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }

  void expect_same_as_whole(const std::string& settings) {
    const CommandResult whole = trireme(fmt::format(
        "train {}/gpt.yaml --set run.directory={}/whole --set reproducibility=layout --set "
        "parallel.tensor_blocks=2 {}",
        data_directory(), directory(), settings));
    ASSERT_EQ(whole.exit_code, 0) << whole.output;
    const auto expected = steps_of("whole"), got = steps_of("run");
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(got[i].loss, expected[i].loss) << "step " << expected[i].step;
    EXPECT_TRUE(weights_of("run") == weights_of("whole"));
  }
};

TEST_F(SignalsTest, UserSignalsDuringASaveLeadToAnotherCheckpointAndTheSameBits) {
  const std::string settings =
      "--set train.steps=600 --set train.global_batch=64 --set train.log_every=1000";
  const CommandResult result =
      run_with(settings, 30,
               "await $run/metrics.jsonl; kill -USR1 $job; await \"$run/checkpoints/step_*.tmp\"\n"
               "kill -USR1 $job; sleep 0.02; kill -USR1 $job");

  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, Not(HasSubstr("left behind")));
  // On busy cores a save may start so late that training has ended before the test sees it.
  const std::size_t first = result.output.find("Forwarding signal"),
                    last = result.output.rfind("Forwarding signal");
  const bool in_time = first < last && last < result.output.find("step 600/600");
  EXPECT_GE(checkpoints().size(), in_time ? 2U : 1U) << result.output;
  for (const std::string& name : checkpoints())
    EXPECT_THAT(name, Not(HasSubstr(".tmp")));
  const CommandResult verified = trireme("checkpoint inspect --verify " + directory() + "/run");
  EXPECT_EQ(verified.exit_code, 0) << verified.output;
  expect_same_as_whole(settings);
}

TEST_F(SignalsTest, ASaveThatTerminationBeganAndAKillCutShortIsNotACheckpoint) {
  const std::string settings = "--set lr_schedule.name=constant --set train.log_every=1000";
  const std::string some = settings + " --set train.steps=100";
  const CommandResult first = run_with(some + " --set run.deadline_minutes=0.00001", 0, "");
  ASSERT_EQ(first.exit_code, 75) << first.output;
  const auto before = checkpoints();
  // The save outlasts the time that the job is given.
  const CommandResult killed = run_with(
      settings + " --set train.steps=1000000", 600000,
      "lines=$(wc -l <$run/metrics.jsonl)\n"
      "until [ $(wc -l <$run/metrics.jsonl) -gt $lines ] || ! kill -0 $job; do sleep 0.01; done\n"
      "kill -TERM $job");

  EXPECT_EQ(killed.exit_code, 5) << killed.output;
  EXPECT_THAT(killed.output, AllOf(HasSubstr("after it was told to stop: ending mpirun"),
                                   Not(HasSubstr("left behind"))));
  ASSERT_EQ(checkpoints().size(), before.size() + 1) << "the save had not begun";
  EXPECT_THAT(checkpoints(), testing::Contains(HasSubstr(".tmp")));

  const CommandResult last = run_with(some + " --set checkpoint.every_steps=40", 0, "");
  EXPECT_EQ(last.exit_code, 0) << last.output;
  EXPECT_THAT(checkpoints(), testing::Each(Not(HasSubstr(".tmp"))));
  expect_same_as_whole(some);
}

// The program alone, under mpirun, and both under the supervisor.
std::vector<std::string> launchers(const std::string& directory) {
  const std::string supervised = fmt::format("{} --run {}/run -- ", TRIREME_SUPERVISE, directory);
  const std::string patient = "env TRIREME_GRACE_SECONDS=100 " TRIREME_MPI_RUN " -np 2";
  return {"", patient, supervised, supervised + patient};
}
constexpr const char* endless = "--set train.steps=1000000 --set train.log_every=100000";

TEST_F(SignalsTest, AnInterruptSaysSoAndStopsWithACheckpointAndNothingElseLeftBehind) {
  for (const std::string& launcher : launchers(directory())) {
    SCOPED_TRACE(launcher);
    const CommandResult result =
        run_with(endless, 0, "await \"$run/metrics.jsonl\"; kill -INT $job", launcher);

    EXPECT_EQ(result.exit_code, 75) << result.output;
    EXPECT_THAT(
        result.output,
        AllOf(HasSubstr("interrupted: the run writes a checkpoint after its next step and stops"),
              HasSubstr(": SIGINT; the same command resumes"), Not(HasSubstr("left behind"))));
    EXPECT_THAT(checkpoints(), testing::SizeIs(1));
    for (const auto& entry : fs::directory_iterator(directory() + "/run"))
      EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("collectives"))) << launcher;
    fs::remove_all(directory() + "/run");
  }
}

TEST_F(SignalsTest, ASecondInterruptEndsTheJobAtOnce) {
  for (const std::string& launcher : launchers(directory())) {
    SCOPED_TRACE(launcher);
    const CommandResult result = run_with(endless, 600000,
                                          "await $run/metrics.jsonl; kill -INT $job\n"
                                          "await \"$run/checkpoints/step_*.tmp\"\n"
                                          "for again in 1 2 3; do kill -INT $job; sleep 1; done",
                                          launcher);

    EXPECT_EQ(result.exit_code, 130) << result.output;
    EXPECT_THAT(result.output,
                AllOf(HasSubstr("interrupted a second time"), Not(HasSubstr("left behind"))));
    EXPECT_THAT(checkpoints(), testing::Each(HasSubstr(".tmp")));
    fs::remove_all(directory() + "/run");
  }
}

TEST_F(SignalsTest, ARankEndedByASignalIsNamedAndTheJobsCodeIsFive) {
  const CommandResult result = run_with(
      "--set train.steps=1000000 --set train.log_every=100000", 0,
      "await $run/metrics.jsonl\n"
      "for rank in $(pgrep -f \"run.directory=$run \"); do\n"
      "  if grep -qsz '^OMPI_COMM_WORLD_RANK=1$' /proc/$rank/environ; then kill -KILL $rank; fi\n"
      "done");

  EXPECT_EQ(result.exit_code, 5) << result.output;
  EXPECT_THAT(result.output,
              AllOf(ContainsRegex("\\[rank 1 [^ ]+\\] error: ended by signal 9 \\(Killed\\)"),
                    Not(HasSubstr("left behind"))));
  EXPECT_THAT(result.output.substr(result.output.rfind("[rank 1 ")),
              testing::MatchesRegex("[^\n]*\n"))
      << "something follows the last word";
}

}  // namespace
}  // namespace trireme::test
