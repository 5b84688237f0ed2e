// SPDX-License-Identifier: Apache-2.0
// Terminal output, and its copy in log files.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/launch/fixture/launcher.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

class ConsoleTest : public RunTest {
 protected:
  [[nodiscard]] std::string file(const std::string& name) const {
    return directory() + "/run/" + name;
  }
  // The shell command that trains on one rank.
  [[nodiscard]] std::string training() const {
    return fmt::format("{} train {}/gpt.yaml --set run.directory={}/run", TRIREME_BINARY,
                       data_directory(), directory());
  }
  static std::string between(const std::string& text, const std::string& from,
                             const std::string& to) {
    const auto begin = text.find(from);
    if (begin == std::string::npos) return "";
    const auto end = text.find(to, begin + from.size());
    return text.substr(begin + from.size(), end - begin - from.size());
  }
};

TEST_F(ConsoleTest, ATypoInACommandOrOptionIsAnsweredWithTheNearest) {
  const std::pair<const char*, const char*> cases[] = {
      {"trian", "trireme: trian: no such command; did you mean train?"},
      {"checkpoint inspct x", "trireme checkpoint: inspct: no such command; did you mean inspect?"},
      {"train --sett=1", "trireme train: --sett: no such option; did you mean --set?"},
      {"train a.yaml --set train.steps=1 train.log_every=2",
       "trireme train: train.log_every=2: --set takes one KEY=VALUE; write --set "
       "train.log_every=2"},
      {"train --set train.steps=1 train.log_every=2 a.yaml", "write --set train.log_every=2"},
      {"a.yaml", "to train with this config: trireme train a.yaml"},
      {"", "trireme: give a command: train, "},
      {"bench", "trireme bench: give a command: "},
      {"--hepl", "trireme: --hepl: no such option; did you mean --help?"}};
  for (const auto& [typed, answer] : cases) {
    const CommandResult result = trireme(typed);
    EXPECT_EQ(result.exit_code, 2) << typed;
    EXPECT_THAT(result.output, HasSubstr(answer));
  }
  const CommandResult ranks = trireme("trian", 2);
  EXPECT_EQ(ranks.exit_code, 2);
  EXPECT_THAT(ranks.output, Not(HasSubstr("mpirun")));
  EXPECT_EQ(ranks.output.find("error:"), ranks.output.rfind("error:")) << ranks.output;
}

TEST_F(ConsoleTest, CommandsOfEarlierVersionsDoTheSameWithANoticeAndAreInNoHelp) {
  const std::string data = data_directory() + "/text";
  const std::string notice = "trireme data verify is trireme data inspect --verify now\n";
  const CommandResult now = trireme("data inspect --verify --quiet " + data);
  const CommandResult old = trireme("data verify --quiet " + data);
  EXPECT_EQ(now.exit_code, 0) << now.output;
  EXPECT_EQ(old.exit_code, 0);
  EXPECT_EQ(old.output, notice + now.output);
  EXPECT_EQ(trireme("data verify " + data + "/none").exit_code, 3);
  EXPECT_EQ(trireme("data statistics a.yaml").exit_code, 2);
  EXPECT_THAT(trireme("data --help").output, Not(HasSubstr("describe")));
}

TEST_F(ConsoleTest, AnErrorEscapesControlCharactersAndIsCut) {
  const CommandResult escape = trireme("report '/a\x1b[31m'");
  const CommandResult cut = trireme("report /" + std::string(60000, 'b'));

  EXPECT_EQ(escape.exit_code, 2);
  EXPECT_THAT(escape.output, AllOf(HasSubstr("/a\\u001b[31m"), Not(HasSubstr("\x1b"))));
  EXPECT_LT(cut.output.size(), 20000U);
}

TEST_F(ConsoleTest, UnderMpirunACommandOfOneProcessPrintsOnceAndOneThatStartsJobsIsRefused) {
  ASSERT_EQ(train_gpt("run", 1).exit_code, 0);
  const auto times = [](const std::string& text, const std::string& what) {
    int count = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
      ++count;
    return count;
  };
  const std::pair<std::string, std::string> cases[] = {
      {"report " + directory() + "/run", "progress "},
      {"replay " + directory() + "/run", "certificate"},
      {"plan --ranks 1 " + data_directory() + "/gpt.yaml", "parameters"},
      {"data inspect " + data_directory() + "/text", "tokens"}};
  for (const auto& [command, line] : cases) {
    const CommandResult alone = trireme(command), ranks = trireme(command, 2);
    EXPECT_EQ(ranks.exit_code, alone.exit_code) << ranks.output;
    EXPECT_GT(times(alone.output, line), 0) << alone.output;
    EXPECT_EQ(times(ranks.output, line), times(alone.output, line)) << ranks.output;
  }
  const CommandResult study = trireme("scale " + data_directory() + "/gpt.yaml --ranks 1", 2);
  EXPECT_EQ(study.exit_code, 2);
  EXPECT_THAT(study.output, HasSubstr("trireme scale: starts jobs itself"));
}

TEST_F(ConsoleTest, EveryLossShownIsTheOneOfItsStep) {
  const CommandResult result = train_gpt("run", 1, {"train.log_every=3"});

  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto steps = steps_of("run");
  ASSERT_EQ(steps.size(), 6U);
  for (const std::size_t step : {3U, 6U}) {
    const double mean = (steps[step - 3].loss + steps[step - 2].loss + steps[step - 1].loss) / 3;
    EXPECT_THAT(result.output,
                HasSubstr(fmt::format("step {}/6  loss {:.4f} (mean of 3 steps {:.4f})", step,
                                      steps[step - 1].loss, mean)));
  }
  EXPECT_THAT(result.output, HasSubstr(fmt::format("final loss {:.4f} (of step 6; exact bits ",
                                                   steps.back().loss)));
  EXPECT_EQ(std::strtod(between(result.output, "exact bits ", ")").c_str(), nullptr),
            steps.back().loss);
}

TEST_F(ConsoleTest, ColoursOfAScheduleReachATerminal) {
  const CommandResult result =
      run_command("TERM=xterm script -qec \"stty cols 80; " TRIREME_BINARY
                  " plan --print-schedule --stages 2 --micro-batches 2 --schedule gpipe\" "
                  "/dev/null </dev/null");

  EXPECT_THAT(result.output, HasSubstr("\033[30;44m"));
}

TEST_F(ConsoleTest, OnATerminalProgressIsOneLineWithinItsWidthThatYieldsToTheLog) {
  const CommandResult result =
      run_command("TERM=xterm NO_COLOR=1 script -qec \"stty cols 50; " + training() +
                  " --set train.log_every=1 --set train.eval_every=3\" /dev/null </dev/null");

  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("\rstep 1/6  loss "));
  EXPECT_THAT(result.output, Not(HasSubstr("  lr ")));
  EXPECT_THAT(result.output, Not(HasSubstr("\x1b[3")));  // a colour
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);) {
    const auto removed = line.rfind("\r\x1b[K");
    const bool again = removed == std::string::npos;  // of a text of several lines
    EXPECT_LE(between(line, "\rstep ", "\x1b[K").size(), 44U) << line;
    EXPECT_THAT(again ? line : line.substr(removed + 4),
                MatchesRegex(again ? "(time .*|ranks|bottleneck|suggestion): .*"
                                   : "(\\[|step [36]/6  validation|done: ).*"));
  }
  EXPECT_THAT(read_file(file("console.log")), HasSubstr("[console] step 5/6  loss "));
}

TEST_F(ConsoleTest, TheRunDirectoryKeepsTheLogOfAllStartsAndTheErrorThatEndedOne) {
  ASSERT_EQ(
      train_gpt("run", 2, {"run.deadline_minutes=0.00001", "checkpoint.every_steps=3"}).exit_code,
      75);
  const std::string first = read_file(file("console.log"));
  EXPECT_THAT(first, AllOf(HasSubstr("[info] [0] [train] gpt2 with "),
                           HasSubstr("[info] [0] [console] step "),
                           HasSubstr("[warning] [0] [train] stopped before step 6")));
  ASSERT_EQ(train_gpt("run", 2, {"checkpoint.every_steps=4"}).exit_code, 0);

  const std::string both = read_file(file("console.log"));
  EXPECT_TRUE(both.starts_with(first));
  EXPECT_THAT(both, AllOf(HasSubstr("final loss "), HasSubstr("checkpoint.every_steps: 4 (was 3)"),
                          HasSubstr("[console] bottleneck: ")));
  const CommandResult broken = train_gpt("broken", 2,
                                         {"optimizer.learning_rate=1000", "train.clip_norm=0",
                                          "optimizer.name=sgd", "train.steps=40"});
  EXPECT_EQ(broken.exit_code, 6) << broken.output;
  EXPECT_THAT(read_file(directory() + "/broken/console.log"), HasSubstr("[error] [0] [job] step "));
}

TEST_F(ConsoleTest, ExitCodesPrintNoLauncherOutputBelowOurs) {
  for (const int ranks : {1, 3}) {
    const CommandResult stopped =
        train_gpt(fmt::format("run{}", ranks), ranks,
                  {"run.deadline_minutes=0.00001", "train.global_batch=6"});
    EXPECT_EQ(stopped.exit_code, 75) << stopped.output;
    EXPECT_THAT(stopped.output, Not(HasSubstr("mpirun")));
    const std::string output = without_banner(stopped.output);
    EXPECT_THAT(output.substr(output.rfind("stopped before step")), MatchesRegex("[^\n]*\n"));
  }
}

TEST_F(ConsoleTest, ASmokeTestOfAConfigNeedsOneFlag) {
  const CommandResult result = train_gpt("run", 2, {"train.steps=1"});

  EXPECT_EQ(result.exit_code, 0) << result.output;
  const std::string notice =
      "lr_schedule.warmup_steps: 2 is more than --set train.steps=1 and is shortened to 1";
  EXPECT_THAT(result.output, HasSubstr(notice));
  EXPECT_EQ(result.output.find(notice), result.output.rfind(notice)) << result.output;
}

TEST_F(ConsoleTest, ARunDirectoryThatIsAFileIsRefused) {
  write_file(directory() + "/file", "mine");
  for (const char* const name : {"file", "file/below"}) {
    const CommandResult result = train_gpt(name, 2);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_THAT(result.output, HasSubstr("run.directory: "));
    EXPECT_THAT(result.output, HasSubstr("exists and is not a directory; choose another place"));
  }
  EXPECT_EQ(read_file(directory() + "/file"), "mine");
}

TEST_F(ConsoleTest, ClosedStandardDescriptorsLeaveEveryFileItsOwnLines) {
  const CommandResult result = run_command(training() + " <&- >&- 2>&-");

  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(steps_of("run").size(), 6U);  // parses every line
  EXPECT_THAT(read_file(file("console.log")), HasSubstr("final loss"));
  EXPECT_FALSE(weights_of("run").empty());
}

TEST_F(ConsoleTest, ARunContinuesWithoutAReader) {
  const CommandResult first_line =
      run_command("{ " + training() + " 2>&1; echo $? >" + directory() + "/code; } | head -n 1");

  EXPECT_EQ(read_file(directory() + "/code"), "0\n") << first_line.output;
  EXPECT_EQ(steps_of("run").size(), 6U);
  EXPECT_FALSE(weights_of("run").empty());
}

TEST_F(ConsoleTest, AClosedPipeEndsOnlyItsCommandWithoutError) {
  ASSERT_EQ(run_command(training()).exit_code, 0);
  const auto code_of = [&](const std::string& command) {
    static_cast<void>(run_command(
        fmt::format("rm -f {0}/left; {{ until [ -e {0}/left ]; do sleep 0.01; done; "
                    "{1} {2} 2>{0}/errors; echo $? >{0}/code; }} | {{ exec 0<&-; >{0}/left; }}",
                    directory(), TRIREME_BINARY, command)));
    EXPECT_THAT(read_file(directory() + "/errors"), Not(HasSubstr("error"))) << command;
    return read_file(directory() + "/code");
  };

  EXPECT_EQ(code_of(fmt::format("report {0}/run --output {0}/page.html", directory())), "0\n");
  EXPECT_TRUE(std::filesystem::exists(directory() + "/page.html"));
  EXPECT_EQ(code_of(fmt::format("checkpoint inspect {}/run", directory())), "0\n");
  EXPECT_EQ(code_of("train --list-keys"), "0\n");
  // A command that only prints ends with its reader.
  EXPECT_EQ(code_of(fmt::format("generate {}/run --prompt-ids 1,2 --tokens 5", directory())),
            "141\n");
}

TEST_F(ConsoleTest, InspectionCommandsHaveJsonOutput) {
  ASSERT_EQ(run_command(training()).exit_code, 0);
  const auto answer = [&](const std::string& command) {
    return nlohmann::json::parse(trireme(command + " --json").output);
  };
  const std::string run = directory() + "/run";

  const auto report = answer("report " + run);
  EXPECT_EQ(report["runs"][0]["state"], "finished");
  EXPECT_EQ(report["runs"][0]["step"], 6);
  EXPECT_EQ(report["runs"][0]["settings"]["train.steps"], "6");
  EXPECT_FALSE(std::filesystem::exists(run + "/report.html"));
  const auto top = answer("top " + run);
  EXPECT_EQ(top["runs"][0]["loss"], report["runs"][0]["loss"]);
  EXPECT_EQ(top["runs"][0]["state"], "finished");
  EXPECT_EQ(answer("replay " + run)["holds"], true);
  EXPECT_EQ(answer("doctor")["problems"], 0);
}

TEST_F(ConsoleTest, CommandsOfEarlierVersionsAreTakenWithANoticeAndAreInNoHelp) {
  ASSERT_EQ(train_gpt("run", 1).exit_code, 0);
  const std::string run = " " + directory() + "/run";
  const std::array<std::string, 3> renamed[] = {
      {"checkpoint diff", "checkpoint inspect", run + run},
      {"verify-run", "replay", run},
      {"checkpoint verify", "checkpoint inspect --verify", run},
      {"bench comm", "bench machine --links", " --max-bytes 1"}};
  for (const auto& [old, now, arguments] : renamed) {
    const CommandResult before = trireme(old + arguments), after = trireme(now + arguments);
    EXPECT_EQ(before.exit_code, after.exit_code) << old;
    EXPECT_THAT(before.output, HasSubstr(fmt::format("trireme {} is trireme {} now", old, now)));
    EXPECT_THAT(before.output, HasSubstr(after.output)) << old;
  }
  EXPECT_THAT(trireme("--help").output, Not(HasSubstr("verify-run")));
}

TEST_F(ConsoleTest, FailedOutputDoesNotChangeAFailuresExitCode) {
  for (const char* const where : {"2>/dev/full", "2>&-", ">/dev/full 2>&1"}) {
    const CommandResult result =
        run_command(fmt::format("{} train {}/none.yaml {}", TRIREME_BINARY, directory(), where));
    EXPECT_EQ(result.exit_code, 2) << where;
  }
  const CommandResult lost = run_command(TRIREME_BINARY " --version >/dev/full");
  EXPECT_EQ(lost.exit_code, 1);
  EXPECT_THAT(lost.output, HasSubstr("standard output cannot be written to: No space left"));
}

}  // namespace
}  // namespace trireme::test
