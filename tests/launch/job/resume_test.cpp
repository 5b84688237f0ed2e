// SPDX-License-Identifier: Apache-2.0
// Runs that stop, or are stopped, and go on from a checkpoint: to the same bits.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "runtime/config/optimizer_config.h"
#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class ResumeTest : public RunTest {
 protected:
  using Settings = std::vector<std::string>;
  // The bits that do not depend on the layout.
  static Settings layout(const Settings& more) {
    Settings all{"reproducibility=layout", "checkpoint.every_steps=4", "train.steps=10",
                 "train.eval_every=5", "parallel.tensor_blocks=2"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Stops after its first step or two.
  static Settings stopping(const Settings& more) {
    Settings all = layout(more);
    all.emplace_back("run.deadline_minutes=0.00001");
    return all;
  }

  void expect_same_run(const std::string& a, const std::string& b) const {
    const auto steps_a = steps_of(a), steps_b = steps_of(b);
    ASSERT_EQ(steps_a.size(), steps_b.size());
    for (std::size_t i = 0; i < steps_a.size(); ++i) {
      EXPECT_EQ(steps_a[i].step, steps_b[i].step);
      EXPECT_EQ(steps_a[i].loss, steps_b[i].loss) << "step " << steps_a[i].step;
      EXPECT_EQ(steps_a[i].grad_norm, steps_b[i].grad_norm) << "step " << steps_a[i].step;
    }
    EXPECT_EQ(validation_loss_of(a), validation_loss_of(b));
    EXPECT_TRUE(weights_of(a) == weights_of(b));
    const CommandResult compared =
        trireme(fmt::format("replay {}/{} --against {}/{}", directory(), a, directory(), b));
    EXPECT_EQ(compared.exit_code, 0) << compared.output;
    EXPECT_EQ(chain_of(a), chain_of(b));
  }
  // The last digest of a run's certificate.
  [[nodiscard]] std::string chain_of(const std::string& name) const {
    const std::string text = read_file(fmt::format("{}/{}/certificate.jsonl", directory(), name));
    return text.substr(text.rfind("\"chain\":"), 29);
  }
  void expect_done(const CommandResult& result) const {
    ASSERT_EQ(result.exit_code, 0) << result.output;
  }
};

TEST_F(ResumeTest, ARunThatStoppedAtItsDeadlineGoesOnUnderAnyLayoutToTheSameBits) {
  expect_done(train_gpt("whole", 1, layout({})));
  struct Case {
    int ranks_before, ranks_after;
    Settings before, after;
  };
  const std::vector<Case> cases = {
      {1, 1, {}, {}},
      {2, 4, {}, {"parallel.pipeline=2"}},
      {2, 2, {"parallel.tensor=2"}, {"parallel.zero=3"}},
      {4, 1, {"parallel.pipeline=2", "parallel.zero=1"}, {}},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    const std::string name = fmt::format("case{}", i);
    const CommandResult first = train_gpt(name, cases[i].ranks_before, stopping(cases[i].before));
    EXPECT_EQ(first.exit_code, 75) << first.output;
    EXPECT_THAT(first.output, HasSubstr("the same command resumes from the checkpoint"));
    const auto done = steps_of(name).size();
    EXPECT_GE(done, 1U);
    EXPECT_LT(done, 10U);
    const CommandResult second = train_gpt(name, cases[i].ranks_after, layout(cases[i].after));
    expect_done(second);
    EXPECT_THAT(second.output, HasSubstr(fmt::format("going on after step {}", done)));
    expect_same_run("whole", name);
  }
}

TEST_F(ResumeTest, FactoredMomentsGoOnUnderAnotherLayoutToTheSameBits) {
  for (const OptimizerTraits& optimizer : optimizer_table) {
    if (!optimizer.factored) continue;  // other tests cover moments per weight
    SCOPED_TRACE(optimizer.name);
    const std::string name(optimizer.name), whole = name + "_whole";
    const std::string choice = "optimizer.name=" + name;
    expect_done(train_gpt(whole, 1, layout({choice})));
    EXPECT_EQ(train_gpt(name, 2, stopping({choice, "parallel.tensor=2"})).exit_code, 75);
    expect_done(train_gpt(name, 2, layout({choice, "parallel.pipeline=2"})));
    expect_same_run(whole, name);
  }
}

// 8 micro-batches: 8 x 1, then 2, 2, 1, 1, 1, 1, then 2, 1, 1, 1, 1, 1, 1.
TEST_F(ResumeTest, ARunGoesOnUnderEightSixAndSevenRanksToTheSameBits) {
  const Settings batches{"train.global_batch=8", "train.micro_batch=1"};
  const auto set = [&](const Settings& more) {
    Settings all = layout(batches);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const Settings stops = set({"run.deadline_minutes=0.00001"});
  expect_done(train_gpt("whole", 1, set({})));
  EXPECT_EQ(train_gpt("parts", 8, stops).exit_code, 75);
  const CommandResult six = train_gpt("parts", 6, stops);
  EXPECT_EQ(six.exit_code, 75) << six.output;
  EXPECT_THAT(six.output, HasSubstr("micro-batches of data ranks: 2, 2, 1, 1, 1, 1"));
  const CommandResult seven = train_gpt("parts", 7, set({"parallel.zero=0"}));
  expect_done(seven);
  EXPECT_THAT(seven.output, HasSubstr("micro-batches of data ranks: 2, 1, 1, 1, 1, 1, 1"));

  expect_same_run("whole", "parts");
}

TEST_F(ResumeTest, StatisticsLossScaleAndAverageGoOnToo) {
  const Settings settings{"checkpoint.every_steps=2", "precision=fp16", "train.ema_decay=0.9",
                          "loss_scale.growth_interval=2", "parallel.reduce_dtype=compute"};
  Settings stops = settings;
  stops.emplace_back("run.deadline_minutes=0.00001");
  expect_done(train_resnet("whole", 2, settings));
  EXPECT_EQ(train_resnet("parts", 2, stops).exit_code, 75);
  expect_done(train_resnet("parts", 2, settings));

  expect_same_run("whole", "parts");
  EXPECT_EQ(steps_of("whole").back().loss_scale, steps_of("parts").back().loss_scale);
  const auto average = [&](const char* run) {
    return read_file(directory() + "/" + run + "/weights_average.safetensors");
  };
  EXPECT_TRUE(average("whole") == average("parts"));
}

// Each part of the run with another sharding.
TEST_F(ResumeTest, ABf16RunWithAnAverageGoesOnUnderEveryZeroStageToTheSameBits) {
  const auto set = [](Settings more) {
    more.insert(more.end(), {"precision=bf16", "train.ema_decay=0.9", "train.micro_batch=1"});
    return layout(more);
  };
  const auto stop = [&](int ranks, const std::string& zero) {
    const CommandResult stopped =
        train_gpt("parts", ranks, set({"parallel.zero=" + zero, "run.deadline_minutes=0.00001"}));
    EXPECT_EQ(stopped.exit_code, 75) << stopped.output;
  };
  expect_done(train_gpt("whole", 1, set({})));

  stop(3, "1");
  stop(2, "0");
  stop(4, "2");
  stop(2, "3");
  expect_done(train_gpt("parts", 5, set({"parallel.zero=1"})));

  expect_same_run("whole", "parts");
  const auto average = [&](const char* run) {
    return read_file(directory() + "/" + run + "/weights_average.safetensors");
  };
  EXPECT_TRUE(average("whole") == average("parts"));
}

// Steps of 2, 4 and 8 samples.
TEST_F(ResumeTest, BatchesGrowAlikeOnEveryLayoutAndAfterAStop) {
  const auto growing = [&](Settings more) {
    more.insert(more.end(), {"train.batch_ramp=[0:2,3:4,6:8]", "train.micro_batch=1"});
    return layout(more);
  };
  expect_done(train_gpt("whole", 1, growing({})));
  std::string last;
  std::istringstream lines(read_file(directory() + "/whole/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);)
    if (line.find("tokens_seen") != std::string::npos) last = line;
  EXPECT_EQ(nlohmann::json::parse(last).at("tokens_seen").get<int>(), (3 * 2 + 3 * 4 + 4 * 8) * 24);
  const std::vector<Settings> layouts = {
      {"parallel.tensor=2"}, {"parallel.pipeline=2"}, {"parallel.zero=3"}, {}};
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const std::string name = fmt::format("grows{}", i);
    expect_done(train_gpt(name, 2, growing(layouts[i])));
    expect_same_run("whole", name);
  }
  EXPECT_EQ(train_gpt("parts", 2, growing({"run.deadline_minutes=0.00001"})).exit_code, 75);
  expect_done(train_gpt("parts", 1, growing({})));
  expect_same_run("whole", "parts");
  const CommandResult other =
      train_gpt("whole", 1, layout({"train.micro_batch=1", "train.steps=12"}));
  EXPECT_EQ(other.exit_code, 2) << other.output;
  EXPECT_THAT(other.output, HasSubstr("train.batch_ramp"));
}

// Of 24 tokens per row; the first steps use 5 and 12 of them per sequence.
TEST_F(ResumeTest, SequencesGrowAlikeOnEveryLayoutAndAfterAStop) {
  const auto growing = [&](Settings more) {
    more.emplace_back("train.context_ramp=[0:5,3:12,6:24]");
    return layout(more);
  };
  expect_done(train_gpt("whole", 1, growing({})));
  expect_done(train_gpt("long", 1, layout({"train.context_ramp=[0:24]"})));
  expect_done(train_gpt("plain", 1, layout({})));
  expect_same_run("plain", "long");
  EXPECT_NE(steps_of("whole").front().loss, steps_of("plain").front().loss);

  const std::vector<Settings> layouts = {{"parallel.tensor=2"}, {"parallel.pipeline=2"}, {}};
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const std::string name = fmt::format("grows{}", i);
    expect_done(train_gpt(name, 2, growing(layouts[i])));
    expect_same_run("whole", name);
  }
  EXPECT_EQ(train_gpt("parts", 2, growing({"run.deadline_minutes=0.00001"})).exit_code, 75);
  expect_done(train_gpt("parts", 1, growing({})));
  expect_same_run("whole", "parts");
}

TEST_F(ResumeTest, GradientNoiseIsMeasuredAlikeOnEveryLayoutAndGoesOn) {
  const auto settings = [&](Settings more) {
    more.emplace_back("train.noise_scale_every=2");
    return layout(more);
  };
  const auto noise = [&](const std::string& run) {
    std::istringstream lines(read_file(directory() + "/" + run + "/metrics.jsonl"));
    std::string found;
    for (std::string line; std::getline(lines, line);) {
      const auto object = nlohmann::json::parse(line);
      if (object.contains("noise_scale"))
        found += object["step"].dump() + " " + object["noise_scale"].dump() + " " +
                 object["noise_trace"].dump() + " " + object["noise_square"].dump() + "\n";
    }
    return found;
  };
  expect_done(train_gpt("whole", 1, settings({})));
  const std::string expected = noise("whole");
  EXPECT_EQ(std::ranges::count(expected, '\n'), 5);

  EXPECT_EQ(train_gpt("parts", 2, settings({"parallel.tensor=2", "run.deadline_minutes=0.00001"}))
                .exit_code,
            75);
  expect_done(
      train_gpt("parts", 4, settings({"parallel.data=2", "parallel.tensor=2", "parallel.zero=1"})));

  EXPECT_EQ(noise("parts"), expected);
  // It may be enabled later, and disabled again.
  EXPECT_EQ(train_gpt("later", 1, layout({"run.deadline_minutes=0.00001"})).exit_code, 75);
  expect_done(train_gpt("later", 1, settings({})));
  EXPECT_NE(noise("later"), "");
  EXPECT_TRUE(weights_of("later") == weights_of("whole"));
}

TEST_F(ResumeTest, AKilledRunGoesOnFromItsNewestCheckpoint) {
  expect_done(train_gpt("whole", 2, layout({"train.steps=40"})));
  // The job is killed once it has a checkpoint; its ranks die with mpirun.
  const std::string run = directory() + "/killed";
  const CommandResult killed = run_command(fmt::format(
      "{} -np 2 {} train {}/gpt.yaml --set run.directory={} --set reproducibility=layout "
      "--set checkpoint.every_steps=4 --set train.steps=40 --set train.eval_every=5 "
      "--set parallel.tensor_blocks=2 & job=$!; "
      "until ls {}/checkpoints/step_* >/dev/null 2>&1 || ! kill -0 $job; do sleep 0.01; done; "
      "pkill -KILL -P $job; kill -KILL $job; wait $job",
      TRIREME_MPIEXEC, TRIREME_BINARY, data_directory(), run, run));
  EXPECT_NE(killed.exit_code, 0) << killed.output;
  const std::string lines = read_file(run + "/metrics.jsonl");
  const CommandResult second = train_gpt("killed", 2, layout({"train.steps=40"}));
  expect_done(second);
  expect_same_run("whole", "killed");
  const std::string ranks = read_file(run + "/ranks.jsonl");
  const std::size_t begin = ranks.rfind("{\"start\"");
  const auto start = nlohmann::json::parse(ranks.substr(begin, ranks.find('\n', begin) - begin));
  const std::regex loss("\"loss\":");
  EXPECT_EQ(std::distance(std::sregex_iterator(lines.begin(), lines.end(), loss), {}),
            start["step"].get<int>() + start["lost_steps"].get<int>());
}

TEST_F(ResumeTest, UserSignalWritesACheckpointAndTrainingGoesOn) {
  const std::string run = directory() + "/signalled";
  const CommandResult result = run_command(fmt::format(
      "{} -np 2 {} train {}/gpt.yaml --set run.directory={} --set train.steps=400 & job=$!; "
      "until [ -s {}/metrics.jsonl ] || ! kill -0 $job; do sleep 0.01; done; "
      "kill -USR1 $job; sleep 0.2; kill -USR1 $job; wait $job",
      TRIREME_MPIEXEC, TRIREME_BINARY, data_directory(), run, run));

  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(steps_of("signalled").size(), 400U);
  EXPECT_FALSE(std::filesystem::is_empty(run + "/checkpoints"));
}

TEST_F(ResumeTest, TerminationWritesACheckpointAndAsksToBeStartedAgain) {
  const std::string run = directory() + "/terminated";
  // To the program itself: mpirun would give its ranks only a second.
  const CommandResult result = run_command(
      fmt::format("{} train {}/gpt.yaml --set run.directory={} --set train.steps=100000 & job=$!; "
                  "until [ -s {}/metrics.jsonl ] || ! kill -0 $job; do sleep 0.01; done; "
                  "kill -TERM $job; wait $job",
                  TRIREME_BINARY, data_directory(), run, run));

  EXPECT_EQ(result.exit_code, 75) << result.output;
  EXPECT_FALSE(std::filesystem::is_empty(run + "/checkpoints"));
}

TEST_F(ResumeTest, MismatchesAreRefusedAndDamagedCheckpointsSkipped) {
  ASSERT_EQ(train_gpt("run", 1, stopping({})).exit_code, 75);

  const CommandResult fresh = trireme(fmt::format(
      "train {}/gpt.yaml --fresh --set run.directory={}/run", data_directory(), directory()));
  EXPECT_EQ(fresh.exit_code, 2);
  EXPECT_THAT(fresh.output, AllOf(HasSubstr("already holds a run"), HasSubstr("--fresh")));

  const CommandResult seed = train_gpt("run", 1, layout({"run.seed=8"}));
  EXPECT_EQ(seed.exit_code, 2);
  EXPECT_THAT(seed.output, AllOf(HasSubstr("run.seed"), HasSubstr("is 8, but was 7")));

  // Its moment must not be loaded by another optimizer.
  const CommandResult optimizer = train_gpt("run", 1, layout({"optimizer.name=lion"}));
  EXPECT_EQ(optimizer.exit_code, 2) << optimizer.output;
  EXPECT_THAT(optimizer.output, HasSubstr("optimizer.name: is lion, but was adamw"));

  const CommandResult model = train_gpt("run", 1, layout({"model.hidden=64"}));
  EXPECT_EQ(model.exit_code, 4) << model.output;

  const CommandResult data =
      train_gpt("run", 1, layout({"data.path=" + data_directory() + "/text/validation"}));
  EXPECT_EQ(data.exit_code, 2) << data.output;
  EXPECT_THAT(data.output, HasSubstr("fingerprint"));

  for (const auto& entry : std::filesystem::directory_iterator(directory() + "/run/checkpoints")) {
    const std::string file = entry.path().string() + "/rank_00000.h5";
    std::string bytes = read_file(file);
    bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 1);
    write_file(file, bytes);
  }
  const CommandResult damaged = train_gpt("run", 1, layout({}));
  EXPECT_EQ(damaged.exit_code, 4);
  EXPECT_THAT(damaged.output, HasSubstr("none of its checkpoints verifies"));
}

TEST_F(ResumeTest, ACheckpointIsDescribedInLinesForPeople) {
  expect_done(train_gpt("run", 1, {"checkpoint.every_steps=3"}));

  const CommandResult described = trireme("checkpoint inspect " + directory() + "/run");
  const CommandResult whole = trireme("checkpoint inspect --config " + directory() + "/run");

  expect_done(described);
  EXPECT_THAT(described.output, AllOf(HasSubstr("\nstep      6\n"),
                                      ContainsRegex("\ndata +fingerprint [0-9a-f]+, samples 225\n"),
                                      ContainsRegex("\n  model.hidden +32\n"), Not(HasSubstr("{")),
                                      Not(HasSubstr("parallel.timeout_seconds"))));
  EXPECT_THAT(whole.output, ContainsRegex("\n  parallel.timeout_seconds +600\n"));
  std::istringstream lines(whole.output);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LT(line.size(), 240U) << line;
}

TEST_F(ResumeTest, AFinishedRunHasNothingLeftToDoUntilItGetsMoreSteps) {
  const Settings settings{"checkpoint.every_steps=3", "lr_schedule.name=constant",
                          "precision=bf16"};
  expect_done(train_gpt("run", 1, settings));
  const CommandResult again = train_gpt("run", 1, settings);
  expect_done(again);
  EXPECT_THAT(again.output, HasSubstr("nothing is left to do"));

  Settings more = settings;
  more.emplace_back("train.steps=9");
  more.emplace_back("parallel.reduce_dtype=compute");  // one rank sends no messages
  more.front() = "checkpoint.every_steps=4";
  const CommandResult longer = train_gpt("run", 1, more);
  expect_done(longer);
  EXPECT_THAT(
      longer.output,
      AllOf(HasSubstr("which do not change what is computed: checkpoint.every_steps: 4 (was 3)"),
            HasSubstr("going on with other settings than before: parallel.reduce_dtype: compute "
                      "(was fp32); train.steps: 9 (was 6)")));
  expect_done(train_gpt("whole", 1, more));
  expect_same_run("whole", "run");

  more.insert(more.end(), {"train.micro_batch=1", "train.steps=10"});
  EXPECT_THAT(train_gpt("run", 1, more).output,
              HasSubstr("(reproducibility: run; layout keeps them): train.micro_batch: 1 (was 2)"));
}

TEST_F(ResumeTest,
       ARunThatWasKilledBetweenItsLastCheckpointAndItsWeightsWritesThemWhenItIsStarted) {
  const Settings settings{"checkpoint.every_steps=2", "train.ema_decay=0.9"};
  Settings shorter = settings;
  shorter.emplace_back("train.steps=4");
  const std::string weights = directory() + "/run/weights.safetensors";
  const std::string average = directory() + "/run/weights_average.safetensors";
  expect_done(train_resnet("run", 2, shorter));
  const std::string older = read_file(weights), older_average = read_file(average);
  expect_done(train_resnet("run", 2, settings));
  const std::string whole = read_file(weights), whole_average = read_file(average);

  const auto expect_written = [&] {
    const CommandResult again = train_resnet("run", 2, settings);
    expect_done(again);
    EXPECT_THAT(again.output,
                AllOf(HasSubstr("nothing is left to do"),
                      HasSubstr("because an earlier start ended before it wrote them")));
    EXPECT_TRUE(read_file(weights) == whole);
    EXPECT_TRUE(read_file(average) == whole_average);
  };
  std::filesystem::remove(average);  // written last, for which a disk had no room
  expect_written();
  std::filesystem::remove(weights);
  std::filesystem::remove(average);
  expect_written();
  // From the run before it got more steps.
  write_file(weights, older);
  write_file(average, older_average);
  expect_written();
  const CommandResult third = train_resnet("run", 2, settings);
  expect_done(third);
  EXPECT_THAT(third.output, Not(HasSubstr("an earlier start ended")));
}

// The environment of a job with a limit, as launch/slurm/train.sbatch sets it.
class TimeLimitTest : public RunTest {
 protected:
  CommandResult train_with_limit(int seconds, const std::vector<std::string>& set) {
    const auto now = std::chrono::duration_cast<std::chrono::seconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
    ::setenv("TRIREME_START_TIME", std::to_string(now).c_str(), 1);
    ::setenv("SLURM_JOB_START_TIME", std::to_string(now).c_str(), 1);
    ::setenv("SLURM_JOB_END_TIME", std::to_string(now + seconds).c_str(), 1);
    return train_gpt("run", 0, set);
  }
  void TearDown() override {
    for (const char* const name :
         {"TRIREME_START_TIME", "SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME"})
      ::unsetenv(name);
  }
  std::string times() const { return directory() + "/run/start_times.json"; }
};

TEST_F(TimeLimitTest, BelowTheAssumedSaveTimeStopsARunThatThenTimesOne) {
  const CommandResult result = train_with_limit(60, {"train.steps=1000000"});

  EXPECT_EQ(result.exit_code, 75) << result.output;
  const auto measured = nlohmann::json::parse(read_file(times()));
  for (const char* const name : {"to_first_step_seconds", "save_seconds", "step_seconds"}) {
    EXPECT_GT(measured.at(name).get<double>(), 0) << name;
    EXPECT_LT(measured.at(name).get<double>(), 60) << name;
  }
}

TEST_F(TimeLimitTest, OfAJobThatIsOverIsNamedAndLeftOut) {
  const std::string start = "1", name = "SLURM_JOB_END_TIME";
  for (const std::string end : {"0", "1700000000", "soon"}) {
    ::setenv("TRIREME_START_TIME", start.c_str(), 1);
    ::setenv("SLURM_JOB_START_TIME", start.c_str(), 1);
    ::setenv(name.c_str(), end.c_str(), 1);
    const CommandResult result = train_gpt("run" + end, 0, {"checkpoint.every_steps=2"});

    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, HasSubstr(name + "=" + end + ": "));
    EXPECT_THAT(result.output, HasSubstr("TRIREME_START_TIME=1: "));
    const auto measured =
        nlohmann::json::parse(read_file(directory() + "/run" + end + "/start_times.json"));
    EXPECT_LT(measured.at("to_first_step_seconds").get<double>(), 60);
  }
}

TEST_F(TimeLimitTest, ThatIsTooShortForStartAndSaveIsRefusedWithOneThatWorks) {
  const std::vector<std::string> stopped = {"run.deadline_minutes=0.00001"};
  ASSERT_EQ(train_with_limit(3600, stopped).exit_code, 75);
  const std::string before = read_file(directory() + "/run/metrics.jsonl");
  write_file(times(), R"({"to_first_step_seconds": 100, "save_seconds": 50, "step_seconds": 2})");

  const CommandResult refused = train_with_limit(200, {});

  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_THAT(refused.output, AllOf(HasSubstr("time limit of 200 s is too short"),
                                    HasSubstr("100.0 s to its first"), HasSubstr("sbatch --time=7"),
                                    HasSubstr(times())));
  EXPECT_EQ(read_file(directory() + "/run/metrics.jsonl"), before);
  const CommandResult longer = train_with_limit(7 * 60, {});
  EXPECT_EQ(longer.exit_code, 0) << longer.output;
}

TEST_F(TimeLimitTest, ADamagedRecordOfTheLastStartIsIgnored) {
  for (const char* const text : {"", "{", "[1]", R"({"save_seconds": 1})",
                                 R"({"to_first_step_seconds": -1, "save_seconds": 1e999, )"
                                 R"("step_seconds": "2"})"}) {
    ASSERT_EQ(train_with_limit(3600, {"run.deadline_minutes=0.00001", "train.steps=50"}).exit_code,
              75)
        << text;
    write_file(times(), text);
  }
  EXPECT_EQ(train_with_limit(3600, {"train.steps=50"}).exit_code, 0);
}

}  // namespace
}  // namespace trireme::test
