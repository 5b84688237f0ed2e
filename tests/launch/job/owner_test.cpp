// SPDX-License-Identifier: Apache-2.0
// Two jobs with one run directory.
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

class OwnerTest : public RunTest {
 protected:
  // While an endless run trains, saving all the time: shell text in which $job is the run, $run its
  // directory, and `again` starts another in it.
  CommandResult beside_a_run(const std::string& meanwhile) const {
    const std::string script = directory() + "/script.sh";
    write_file(script,
               fmt::format("run={0}/run\n"
                           "train() {{ exec {1} train {2}/gpt.yaml --set run.directory=$run --set "
                           "train.log_every=100000 --set checkpoint.every_steps=20 \"$@\"; }}\n"
                           "await() {{ until compgen -G \"$1\" >/dev/null || ! kill -0 $job; do "
                           "sleep 0.01; done; }}\n"
                           "again() {{ (train \"$@\") 2>&1; echo \"again ended with $?\"; }}\n"
                           "train --set train.steps=1000000 & job=$!\n"
                           "await \"$run/checkpoints/step_*[0-9]\"\n"
                           "{3}\n"
                           "wait $job\n",
                           directory(), TRIREME_BINARY, data_directory(), meanwhile));
    return run_command("bash " + script, 120);
  }
  [[nodiscard]] std::string manifest_of_newest() const {
    std::vector<std::string> paths;
    for (const auto& entry : fs::directory_iterator(directory() + "/run/checkpoints"))
      paths.push_back(entry.path().string());
    return read_file(*std::ranges::max_element(paths) + "/manifest.json");
  }
};

TEST_F(OwnerTest, TheSecondJobIsRefusedAndTheFirstUnharmed) {
  for (const char* const how : {"", "--overwrite", "--set run.seed=8"}) {
    SCOPED_TRACE(how);
    const CommandResult result =
        beside_a_run(fmt::format("again {} --set train.steps=20; kill -TERM $job", how));

    EXPECT_EQ(result.exit_code, 75) << result.output;
    EXPECT_THAT(result.output, AllOf(ContainsRegex("is in use by process [0-9]+ on "),
                                     HasSubstr("again ended with 2")));
    const auto steps = steps_of("run");
    for (std::size_t i = 0; i < steps.size(); ++i)
      ASSERT_EQ(steps[i].step, static_cast<std::int64_t>(i) + 1);
    const CommandResult verified = trireme("checkpoint inspect --verify " + directory() + "/run");
    EXPECT_EQ(verified.exit_code, 0) << verified.output;
    fs::remove_all(directory() + "/run");
  }
}

TEST_F(OwnerTest, AKilledJobsRunGoesOnWithTheNextEpoch) {
  const CommandResult result = beside_a_run(
      "kill -KILL $job; wait $job\n"
      "again --set train.steps=$(($(wc -l <$run/metrics.jsonl) / 20 * 20 + 20))");

  EXPECT_THAT(result.output, HasSubstr("again ended with 0"));
  EXPECT_THAT(manifest_of_newest(), ContainsRegex("\\\\?\"epoch\\\\?\": *2[^0-9]"));
}

TEST_F(OwnerTest, AJobThatWasTakenOverAddsNothingAndCommitsNothing) {
  const CommandResult result = beside_a_run(
      "echo '{\"epoch\": 7, \"host\": \"elsewhere\", \"process\": 12, \"job\": \"\", "
      "\"start_time\": \"now\"}' >$run/new; mv $run/new $run/owner.json\n"
      "wc -l <$run/metrics.jsonl >$run/lines; ls -d $run/checkpoints/*[0-9] >$run/saved");

  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("belongs to process 12 on elsewhere"));
  const std::string run = directory() + "/run";
  // The line that was on its way, if any.
  EXPECT_LE(std::ssize(steps_of("run")), std::stoll(read_file(run + "/lines")) + 1);
  const std::string saved = read_file(run + "/saved");
  for (const auto& entry : fs::directory_iterator(run + "/checkpoints")) {
    if (entry.path().extension() == ".tmp")
      continue;  // an unfinished file; the next start removes it
    EXPECT_THAT(saved, HasSubstr(entry.path().string()));
  }
  EXPECT_FALSE(fs::exists(run + "/weights.safetensors"));
}

TEST_F(OwnerTest, AfterTheLockFileWasDeletedOnlyTheLaterJobsStepsCount) {
  const CommandResult result = beside_a_run(
      "kill -STOP $job; rm $run/owner.lock\n"
      "steps=$(($(wc -l <$run/metrics.jsonl) / 20 * 20 + 400))\n"
      "again --set train.steps=$steps & next=$!\n"
      "until grep -q '\"epoch\": 2' $run/owner.json || ! kill -0 $next; do sleep 0.01; done\n"
      "kill -CONT $job; wait $next; echo $steps >$run/asked");

  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output, AllOf(ContainsRegex("belongs to process [0-9]+ on "),
                                   HasSubstr("again ended with 0")));
  // One line of the first job may have been written after the check.
  const auto steps = steps_of("run");
  const std::int64_t asked = std::stoll(read_file(directory() + "/run/asked"));
  ASSERT_LE(std::ssize(steps), asked + 1);
  std::int64_t next = 1;
  for (const auto& step : steps)
    if (step.step == next) ++next;
  EXPECT_EQ(next, asked + 1);
}

}  // namespace
}  // namespace trireme::test
