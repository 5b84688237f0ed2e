// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <chrono>
#include <cmath>

#include "launch/observe/report/text_report.h"
#include "launch/observe/top/cells.h"
#include "launch/observe/top/frame.h"
#include "launch/observe/top/run_view.h"
#include "launch/observe/top/screen.h"
#include "runtime/base/environment.h"
#include "tests/launch/top/run_files.h"

namespace trireme::top {
namespace {

using test::RunFiles;
using test::TemporaryDirectory;
using test::write_text;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines)
    text += line + "\n";
  return text;
}

std::string page_of(const RunView& view, std::size_t columns = 100) {
  return joined(run_lines(view, {.columns = columns}));
}

class FollowerTest : public testing::Test {
 protected:
  [[nodiscard]] const RunView& look() {
    follower_.refresh();
    return follower_.view();
  }
  TemporaryDirectory directory_;
  RunFiles run_{directory_.file("run")};

 private:
  RunFollower follower_{run_.path()};
};

TEST(Cells, TextIsCutByColumnsNotBytesAndCannotMoveTheCursor) {
  EXPECT_EQ(clean("a\x1b[2Jb\tc\xff", true), "a [2Jb c?");
  EXPECT_EQ(clean("né", false), "n?");
  EXPECT_EQ(cut("néné", 4), "néné");
  EXPECT_EQ(cut("nénéné", 5), "nén..");
  EXPECT_EQ(cut_front("/a/long/path", 6), "..path");
  EXPECT_EQ(columns_of("日本"), 4U);
  EXPECT_EQ(columns_of(cut("日本日本", 5)), 4U);
  EXPECT_EQ(padded("ab", 4), "ab  ");
  EXPECT_EQ(cut("abc", 1), ".");
}

TEST(Cells, BarsAndSparklinesFillTheirColumns) {
  EXPECT_EQ(bar(0.5, 4, true), "██  ");
  EXPECT_EQ(bar(0.5, 4, false), "##  ");
  EXPECT_EQ(bar(7, 2, true), "██");
  EXPECT_EQ(bar(std::nan(""), 2, false).size(), 2U);
  EXPECT_EQ(sparkline(std::vector{1.0, std::nan(""), 8.0}, true), "▁ █");
  EXPECT_EQ(sparkline(std::vector{3.0, 3.0}, false), "__");
}

TEST_F(FollowerTest, ARunThatGoesOnHasProgressTimeLeftAndPhases) {
  run_.config(200);
  run_.steps(1, 100);
  const FileDescriptor lock = run_.lock();

  const RunView& view = look();

  EXPECT_EQ(view.standing.status, RunStatus::running);
  EXPECT_NEAR(view.time_left(), 10, 1e-9);
  EXPECT_THAT(page_of(view),
              AllOf(HasSubstr("running"), HasSubstr("100/200"), HasSubstr("50 %  left 0:10"),
                    HasSubstr("2.5000  mean of 50: 2.5000"), HasSubstr("41.0k tokens/s"),
                    HasSubstr("backward"), HasSubstr("50.0 %      50.0 ms"),
                    HasSubstr("no ranks.jsonl in this run"), HasSubstr("checkpoint none")));
  EXPECT_THAT(page_of(view), Not(HasSubstr("communication")));
}

TEST_F(FollowerTest, TheTimeLeftIsThatOfTheReport) {
  Config config = default_config();
  config.train.steps = 200;
  config.train.eval_every = 40;
  config.checkpoint.every_steps = 50;
  write_text(run_.file("config.yaml"), to_yaml(config));
  run_.steps(1, 100);
  run_.append(
      format_json(EvaluationMetrics{.step = 80, .validation_loss = 2, .evaluation_ms = 500}));
  run_.append(
      R"({"start":"2026-11-22T12:00:00Z","step":0,"ranks":1,"hosts":["n1"],"mesh":{"data":1,"tensor":1,"pipeline":1},"facts":{"checkpoint_every":50,"eval_every":40}}
{"steps":[1,100],"split":{"checkpoint_ms":4},"by_rank":{"period_ms":[104]}}
)",
      "ranks.jsonl");

  // 100 steps, evaluations behind 120, 160 and 200, checkpoints of 200 ms behind 150 and 200.
  EXPECT_NEAR(look().time_left(), 10 + 3 * 0.5 + 2 * 0.2, 1e-6);
  EXPECT_NEAR(report::figures_of(report::read_run(run_.path())).remaining_seconds,
              look().time_left(), 1e-6);
}

TEST_F(FollowerTest, CoreWaitsOfStepsAreShown) {
  run_.append(format_json(
      StepMetrics{
          .step = 1, .loss = 2, .times = {{TimePart::step, 100}, {TimePart::core_wait, 40}}},
      ItemKind::tokens));

  EXPECT_THAT(page_of(look()), HasSubstr("cores      none for 40.0 ms a step  40 %, within"));
}

TEST_F(FollowerTest, NoLineForLongerThanTwentyStepsIsStale) {
  run_.steps(1, 3);
  const FileDescriptor lock = run_.lock();
  const auto earlier = std::chrono::file_clock::now() - std::chrono::seconds(100);
  std::filesystem::last_write_time(run_.file("metrics.jsonl"), earlier);

  const RunView& view = look();

  EXPECT_EQ(view.standing.status, RunStatus::stale);
  EXPECT_THAT(view.standing.text, HasSubstr("no line for 1:4"));
  EXPECT_THAT(view.standing.text, HasSubstr("the time of 100"));
}

TEST_F(FollowerTest, ALongEvaluationIsNotStale) {
  run_.steps(1, 3);
  run_.append(
      format_json(EvaluationMetrics{.step = 3, .validation_loss = 1, .evaluation_ms = 80000}));
  const FileDescriptor lock = run_.lock();
  std::filesystem::last_write_time(run_.file("metrics.jsonl"),
                                   std::chrono::file_clock::now() - std::chrono::seconds(100));

  EXPECT_EQ(look().standing.status, RunStatus::running);
}

TEST_F(FollowerTest, TheEndOfARunSaysHowItEnded) {
  run_.config(3);
  run_.steps(1, 3);
  write_text(run_.file("owner.lock"), "");
  write_text(run_.file("owner.json"), "{\"host\":\"" + host_name() + "\",\"process\":1}");
  EXPECT_EQ(look().standing.status, RunStatus::ended);
  EXPECT_THAT(look().standing.text,
              HasSubstr("there is no checkpoint: the same command starts from the beginning"));
  // A run of a study need not leave weights.
  run_.append(R"({"end":"2026-11-22T12:01:02Z","step":3,"wall_s":1})"
              "\n",
              "ranks.jsonl");
  EXPECT_EQ(look().standing.status, RunStatus::finished);
  std::filesystem::remove(run_.file("ranks.jsonl"));
  EXPECT_EQ(look().standing.status, RunStatus::ended);
  write_text(run_.file("weights.safetensors"), "");
  EXPECT_EQ(look().standing.status, RunStatus::finished);
  const std::string time = "[2026-11-22 12:01:02.345] ";
  run_.append(time + "[warning] [0] [train] stopped before step 9: SIGTERM\n", "console.log");
  EXPECT_EQ(look().standing.status, RunStatus::stopped);
  run_.append(time + "[error] [0] [main] disk full\n", "console.log");
  EXPECT_EQ(look().standing.status, RunStatus::failed);
  EXPECT_THAT(page_of(look()), AllOf(HasSubstr("FAILED"), HasSubstr("disk full")));
  // The next start.
  run_.append(time + "[info] [0] [train] gpt2\n", "console.log");
  EXPECT_EQ(look().standing.status, RunStatus::finished);
}

TEST_F(FollowerTest, ARunThatHasDoneTheStepsOfUntilIsFinished) {
  run_.config(100);
  run_.steps(1, 3);
  write_text(run_.file("owner.lock"), "");
  write_text(run_.file("owner.json"), "{\"host\":\"" + host_name() + "\",\"process\":1}");
  run_.append(
      "[2026-11-22 12:01:02.345] [info] [0] [train] stopped at the step that --until names; "
      "a command without it resumes from the checkpoint in run\n",
      "console.log");

  EXPECT_EQ(look().standing.status, RunStatus::finished);
  EXPECT_THAT(look().standing.text, HasSubstr("--until"));
}

TEST_F(FollowerTest, ARunOfAnotherHostWhoseLockIsNotSeenGoesOnWhileItsLinesAreNew) {
  run_.config(100);
  run_.steps(1, 3);
  write_text(run_.file("owner.lock"), "");
  write_text(run_.file("owner.json"), R"({"host":"elsewhere","process":1})");
  EXPECT_EQ(look().standing.status, RunStatus::running);

  std::filesystem::last_write_time(run_.file("metrics.jsonl"),
                                   std::chrono::file_clock::now() - std::chrono::hours(1));
  EXPECT_EQ(look().standing.status, RunStatus::ended);
}

TEST_F(FollowerTest, ADirectoryMayComeLaterAndGo) {
  std::filesystem::remove(run_.path());
  EXPECT_EQ(look().standing.status, RunStatus::missing);
  std::filesystem::create_directory(run_.path());
  EXPECT_THAT(look().standing.text, HasSubstr("nothing of a run"));
  run_.config(10);
  {
    const FileDescriptor lock = run_.lock();
    EXPECT_EQ(look().standing.status, RunStatus::starting);
    run_.steps(1, 2);
    EXPECT_EQ(look().step(), 2);
  }
  std::filesystem::remove_all(run_.path());
  EXPECT_EQ(look().standing.status, RunStatus::missing);
  EXPECT_EQ(look().step(), 0);
}

TEST_F(FollowerTest, ARunThatGoesBackToACheckpointIsShownFromThere) {
  run_.steps(1, 9);
  EXPECT_EQ(look().step(), 9);
  std::filesystem::remove(run_.file("metrics.jsonl"));
  run_.steps(1, 4);
  run_.steps(5, 5, 1.0);

  EXPECT_EQ(look().step(), 5);
  EXPECT_EQ(look().recent.size(), 5U);
}

TEST_F(FollowerTest, BrokenFilesAreSkipped) {
  run_.append("{\"step\":1,\"lo\n\xff\xfe\n[]\n");
  run_.steps(2, 2);
  run_.append("{\"step\":3,");
  write_text(run_.file("config.yaml"), "train: [");
  write_text(run_.file("environment.json"), "{\"hosts\":7}");
  write_text(run_.file("owner.json"), "[]");
  write_text(run_.file("ranks.jsonl"), "{\"steps\":[1,\"x\"],\"by_rank\":3}\n");

  const RunView& view = look();

  EXPECT_EQ(view.step(), 2);
  EXPECT_THAT(page_of(view), HasSubstr("of an unknown number of steps"));
  EXPECT_THAT(view.ranks_problem, HasSubstr("no window"));
}

TEST_F(FollowerTest, LinesOfAnotherVersionAreReported) {
  run_.append("{\"step\":1,\"loss_of_a_later_version\":2}\n{\"step\":2}\n");

  EXPECT_THAT(page_of(look()), HasSubstr("2 lines, but no step that this version knows"));

  run_.steps(3, 3);
  EXPECT_THAT(look().problem, testing::IsEmpty());
}

TEST_F(FollowerTest, TheLatestRanksAreNamedWithTheirHosts) {
  run_.steps(1, 2);
  write_text(run_.file("environment.json"), R"({"hosts":["n1","n1","n2","n2"]})");
  run_.append(
      R"({"start":"2026-11-22T12:00:00Z","step":0,"ranks":4,"hosts":[],"mesh":{"data":4,"tensor":1,"pipeline":1},"facts":{}}
{"steps":[1,2],"split":{},"by_rank":{"period_ms":[100,100,100,100],"compute_ms":[80,80,80,95],"late_ms":[0,0.1,2,15],"late_share":[0,0.1,0.2,0.94]}}
)",
      "ranks.jsonl");

  EXPECT_THAT(page_of(look()),
              AllOf(HasSubstr("latest at collectives  of 4, steps 1 to 2"),
                    HasSubstr("rank 3 on n2  15.0 ms a step  in 94 % of the steps\n"),
                    HasSubstr("rank 2 on n2  2.0 ms a step"), Not(HasSubstr("rank 1 on"))));

  run_.append(
      "{\"start\":\"2026-11-22T13:00:00Z\",\"step\":2,\"ranks\":2,\"hosts\":[],\"mesh\":{},"
      "\"facts\":{}}\n",
      "ranks.jsonl");
  EXPECT_THAT(page_of(look()), HasSubstr("no window of steps yet"));
}

TEST_F(FollowerTest, MemoryCheckpointsAndWarningsAreShown) {
  run_.steps(1, 2);
  run_.append(
      "[t] [info] [0] [train] buffers per rank at most: parameters 15.50 MiB, gradients "
      "10.25 MiB, optimizer 20.25 MiB, activations 120.00 MiB\n",
      "console.log");
  std::filesystem::create_directories(run_.file("checkpoints/step_00000002"));
  std::filesystem::create_directories(run_.file("checkpoints/step_00000004.e1.tmp"));
  EXPECT_THAT(page_of(look()), AllOf(HasSubstr("buffers of a rank: 166 MiB"),
                                     HasSubstr("checkpoint writing step_00000004.e1.tmp\n")));

  write_text(run_.file("checkpoints/step_00000002/manifest.json"), "{}");
  run_.append(format_json(FailedSave{.step = 2, .problem = "rank 1: a.h5: No space left"}));

  EXPECT_THAT(page_of(look()),
              AllOf(HasSubstr("step 2, 0:0"), HasSubstr("checkpoint failed (1 in a row)"),
                    HasSubstr("No space left")));
}

TEST_F(FollowerTest, AFileOfManyMegabytesIsSampledNotRead) {
  std::string line = RunFiles::step_line(1, 4.0), text;
  const auto numbered = [&](std::int64_t step, double loss) {
    return RunFiles::step_line(step, loss);
  };
  for (std::int64_t step = 1; step <= 40000; ++step)
    text += numbered(step, step <= 20000 ? 4.0 : 2.0);
  write_text(run_.file("metrics.jsonl"), text);
  ASSERT_GT(text.size(), std::size_t{8} << 20);

  const RunView& view = look();

  EXPECT_EQ(view.step(), 40000);
  EXPECT_LE(view.recent.size(), 50U);
  EXPECT_EQ(view.losses.first_step(), 1);
  const auto columns = view.losses.columns(10);
  EXPECT_NEAR(columns.at(2), 4, 1e-9);
  EXPECT_NEAR(columns.at(7), 2, 1e-9);
}

TEST_F(FollowerTest, NoLineIsWiderThanTheScreen) {
  run_.config(123456789);
  run_.steps(123456, 123600, 1e30);
  run_.append(format_json(FailedSave{.step = 2, .problem = std::string(300, 'x') + " ü ü ü"}));
  const RunView& view = look();
  const RunView* const both[] = {&view, &view};

  for (const bool utf8 : {true, false}) {
    for (std::size_t columns = 1; columns <= 130; ++columns) {
      for (const std::string& line : frame(both, 0, {.columns = columns, .rows = 24, .utf8 = utf8}))
        EXPECT_LE(columns_of(line), columns) << line;
      for (const std::string& line : run_lines(view, {.columns = columns, .utf8 = utf8})) {
        EXPECT_LE(columns_of(line), columns) << line;
        EXPECT_TRUE(utf8 || std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; }));
      }
    }
  }
}

TEST(Frame, ATableOfManyRunsShowsThoseAroundTheChosen) {
  std::vector<RunView> views(50);
  std::vector<const RunView*> all;
  for (std::size_t i = 0; i < views.size(); ++i) {
    views[i].name = "run_" + std::to_string(i);
    all.push_back(&views[i]);
  }
  for (const std::size_t chosen : {0U, 25U, 49U}) {
    const auto lines = frame(all, chosen, {.columns = 60, .rows = 20, .highlight = true});
    EXPECT_LE(lines.size(), 20U);
    EXPECT_THAT(joined(lines), HasSubstr("> run_" + std::to_string(chosen)));
  }
}

TEST(KeyReader, TakesArrowsInPiecesAndOfBothModes) {
  KeyReader keys;
  const auto type = [&](std::string_view text) {
    Key last = Key::none;
    for (const char byte : text)
      last = keys.take(byte);
    return last;
  };
  EXPECT_EQ(type("\x1b"), Key::none);
  EXPECT_EQ(type("[A"), Key::up);
  EXPECT_EQ(type("\x1bOB"), Key::down);
  EXPECT_EQ(type("\x1b[1;5B"), Key::down);
  EXPECT_EQ(type("\x1b[3~"), Key::none);
  EXPECT_EQ(type("q"), Key::quit);
}

}  // namespace
}  // namespace trireme::top
