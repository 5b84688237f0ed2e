// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/console.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>

#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using T = TimePart;

using test::read_text;
using test::TemporaryDirectory;

constexpr ConsoleOptions options{
    .steps = 1000, .log_every = 10, .items = ItemKind::tokens, .facts = {.ranks = 2, .data = 2}};

StepMetrics step_number(std::int64_t step) {
  return {.step = step,
          .loss = 2.5,
          .learning_rate = 1e-3,
          .grad_norm = 0.75,
          .items = 4096,
          .times = {{T::step, 250}, {T::data_wait, 0.5}, {T::exposed_comm, 25}}};
}

StepTotals totals_of(const StepMetrics& metrics, int steps = 1) {
  StepTotals totals;
  for (int i = 0; i < steps; ++i)
    totals.add(metrics);
  return totals;
}

// A file as the output of a console, read back at the end.
class OutputFile {
 public:
  OutputFile() : descriptor_(::open(path().c_str(), O_RDWR | O_CREAT | O_APPEND, 0600)) {}
  ~OutputFile() { ::close(descriptor_); }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] std::string text() const { return read_text(path()); }

 private:
  [[nodiscard]] std::string path() const { return directory_.file("out"); }
  TemporaryDirectory directory_;
  int descriptor_;
};

TEST(ConsoleFormat, AStepLineShowsTheStepsLossAndNormAndLabelsTheMeanOfTheWindow) {
  StepTotals window = totals_of(step_number(119));
  StepMetrics last = step_number(120);
  last.loss = 1.5;
  last.grad_norm = 1.25;
  window.add(last);

  EXPECT_EQ(format_step_line(last, window, options),
            "step  120/1000  loss 1.5000 (mean of 2 steps 2.0000)  lr 1.00e-03  norm 1.250"
            "  16.4k tokens/s  250.0 ms"
            "  data 0.2 %  comm 10.0 %  eta 3:40\n");
}

TEST(ConsoleFormat, AStepLineOfAnEmptyWindowDividesByNothing) {
  EXPECT_EQ(format_step_line(StepMetrics{}, StepTotals{}, options),
            "step    0/1000  loss 0.0000  lr 0.00e+00  norm 0.000  0.00 tokens/s  0.0 ms"
            "  data 0.0 %  comm 0.0 %  eta 0:00\n");
}

TEST(ConsoleFormat, AnEvaluationLineShowsSharesInPercentAndErrorsAsTheyAre) {
  EXPECT_EQ(format_evaluation_line({.step = 200,
                                    .validation_loss = 0.25,
                                    .quality = {.accuracy = 0.9123},
                                    .evaluation_ms = 1500},
                                   options),
            "step  200/1000  validation loss 0.2500  accuracy 91.23 %  (1.5 s)\n");
  EXPECT_EQ(
      format_evaluation_line({.step = 200,
                              .validation_loss = 0.25,
                              .quality = {.mae = 0.124},
                              .sources = {{"fine", 0.5, {.accuracy = 0.5, .mean_iou = 0.82}}},
                              .evaluation_ms = 1500},
                             options),
      "step  200/1000  validation loss 0.2500  mae 0.1240  (1.5 s)\n"
      "step  200/1000  validation of fine: loss 0.5000  accuracy 50.00 %  mean_iou 82.00 %\n");
  EXPECT_EQ(format_evaluation_line({.step = 200, .validation_loss = 0.25}, options),
            "step  200/1000  validation loss 0.2500  (0.0 s)\n");
}

TEST(ConsoleFormat, ProgressShowsTheTimeSplitThatFits) {
  StepMetrics last = step_number(500);
  last.times[T::data_wait] = 5;
  last.times[T::straggler] = 10;
  last.times[T::bubble] = 12.5;
  const StepTotals window = totals_of(last);
  const std::string whole =
      "step  500/1000  loss 2.5000  16.4k tokens/s  eta 2:05  compute 79 %  comm 10 %"
      "  slow ranks 4 %  bubble 5 %  data 2 %";

  EXPECT_EQ(format_progress(last, window, options, 200), whole);
  EXPECT_EQ(format_progress(last, window, options, 79),
            whole.substr(0, whole.find("  slow ranks")));
  EXPECT_EQ(format_progress(last, window, options, 30), "step  500/1000  loss 2.5000");
  EXPECT_EQ(format_progress(last, window, options, 7), "step  5");
  for (std::size_t width = 0; width < 200; ++width)
    EXPECT_LE(format_progress(last, window, options, width).size(), width);
}

TEST(ConsoleFormat, TheTimeLeftHasEvaluationsAndCheckpointsInIt) {
  ConsoleOptions here = options;
  here.facts.eval_every = 300;
  here.facts.checkpoint_every = 250;
  const StepMetrics last = step_number(500);

  // 500 steps of 250 ms; evaluations behind steps 600, 900 and 1000, checkpoints behind 750 and
  // 1000.
  EXPECT_THAT(format_progress(last, totals_of(last), here, 60, {.evaluation = 10, .checkpoint = 3}),
              testing::HasSubstr("eta 2:41"));
}

TEST(ConsoleFormat, QuantitiesHaveThreeDigits) {
  const std::pair<double, const char*> cases[] = {
      {0, "0.00"},        {0.5, "0.50"},    {9.994, "9.99"},     {9.996, "10.0"}, {99.96, "100"},
      {999.4, "999"},     {999.6, "1.00k"}, {12345, "12.3k"},    {1e6, "1.00M"},  {2.5e9, "2.50G"},
      {999.6e3, "1.00M"}, {123e12, "123T"}, {12345e12, "12345T"}};

  for (const auto& [value, expected] : cases)
    EXPECT_EQ(format_quantity(value), expected);
}

TEST(ConsoleFormat, DurationsAreReadAsAClock) {
  EXPECT_EQ(format_duration(0.4), "0:00");
  EXPECT_EQ(format_duration(7), "0:07");
  EXPECT_EQ(format_duration(59.6), "1:00");
  EXPECT_EQ(format_duration(725), "12:05");
  EXPECT_EQ(format_duration(11045), "3:04:05");
  EXPECT_EQ(format_duration(std::nan("")), "-");
  EXPECT_EQ(format_duration(1e300), "-");
}

TEST(ConsoleFormat, TheSummarySaysWhereTheTimeWent) {
  const RunSummary summary{.totals = totals_of(step_number(1), 400),
                           .wall_seconds = 110,
                           .evaluation_seconds = 8,
                           .peak_memory_bytes = 312ULL << 20};

  EXPECT_EQ(
      format_summary(summary, options),
      "done: 400 steps in 1:50, 14.9k tokens/s over all of it, 16.4k tokens/s in the steps alone; "
      "resident memory of a rank at most 312 MiB\n"
      "time 110 s: compute 81.6 %, exposed communication 9.1 %, data wait 0.2 %, evaluation 7.3 %, "
      "other 1.8 %\n"
      "bottleneck: exposed communication (9.1 %): raise train.global_batch (changes the training): "
      "gradients are exchanged once per step, or use fewer ranks\n");
}

TEST(ConsoleFormat, APipelineShowsItsBubble) {
  StepMetrics metrics = step_number(120);
  metrics.times[T::bubble] = 50;
  constexpr ConsoleOptions options{.steps = 1000, .facts = {.ranks = 2, .pipeline = 2}};
  const RunSummary summary{.totals = totals_of(metrics, 400), .wall_seconds = 100};

  EXPECT_EQ(format_step_line(metrics, totals_of(metrics), options),
            "step  120/1000  loss 2.5000  lr 1.00e-03  norm 0.750  16.4k tokens/s  250.0 ms"
            "  data 0.2 %  comm 10.0 %  bubble 20.0 %  eta 3:40\n");
  EXPECT_EQ(
      format_summary(summary, options),
      "done: 400 steps in 1:40, 16.4k tokens/s over all of it, 16.4k tokens/s in the steps alone; "
      "resident memory of a rank at most 0 MiB\n"
      "time 100 s: compute 69.8 %, exposed communication 10.0 %, pipeline bubble 20.0 %, data wait "
      "0.2 %\n"
      "bottleneck: pipeline bubble (20.0 %): raise train.global_batch (changes the training) or "
      "lower parallel.pipeline, or try parallel.schedule: zero-bubble\n");
}

TEST(ConsoleFormat, ReductionsReportTheirOverlap) {
  StepMetrics metrics = step_number(120);
  metrics.times[T::reduce_wait] = 25;
  metrics.times[T::reduce] = 200;
  const RunSummary summary{.totals = totals_of(metrics, 400), .wall_seconds = 100};

  EXPECT_NE(format_summary(summary, options)
                .find("exposed communication 10.0 % (87.5 % of gradient reduction hidden), "),
            std::string_view::npos);
}

TEST(ConsoleFormat, AComputeBoundRunIsReported) {
  StepMetrics metrics = step_number(1);
  metrics.times[T::exposed_comm] = 2;

  const auto summary =
      format_summary({.totals = totals_of(metrics, 400), .wall_seconds = 101}, options);

  EXPECT_TRUE(summary.ends_with("bottleneck: computation; no other part takes more than 1.0 %\n"))
      << summary;
}

TEST(ConsoleFormat, EnergyPerTokenIsThatOfMeasuredSteps) {
  StepTotals totals = totals_of(step_number(1));
  StepMetrics counted = step_number(2);
  counted.joules = 2048;
  totals.add(counted);

  EXPECT_NE(format_summary({.totals = totals, .wall_seconds = 1}, options)
                .find("\nenergy: 2.05k J, 0.5 J per token\n"),
            std::string::npos)
      << format_summary({.totals = totals, .wall_seconds = 1}, options);
}

TEST(ConsoleFormat, ARunWithoutStepsHasASummary) {
  EXPECT_TRUE(format_summary({}, options)
                  .starts_with("done: 0 steps in 0:00, 0.00 tokens/s over all of it"));
}

TEST(Console, PrintsEveryTenthAndTheLastStepAsPlainLines) {
  const OutputFile output;
  ConsoleOptions short_run = options;
  short_run.steps = 25;
  Console console(short_run, output.descriptor());

  for (std::int64_t step = 1; step <= 25; ++step)
    console.step(step_number(step));

  const std::string text = output.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_NE(text.find("step 25/25"), std::string::npos);
}

TEST(Console, LogEveryZeroPrintsNoStepLines) {
  const OutputFile output;
  Console console({.steps = 2, .log_every = 0}, output.descriptor());

  console.step(step_number(1));
  console.step(step_number(2));

  EXPECT_EQ(output.text(), "");
}

TEST(Console, AClosedOutputDoesNotEndTheRun) {
  Console console({.steps = 2, .log_every = 1}, -1);

  EXPECT_NO_THROW(console.step(step_number(1)));
}

// A pseudo-terminal with so many columns, and the text sent to it.
class Terminal {
 public:
  explicit Terminal(unsigned short columns) {
    ::setenv("TERM", "xterm", 1);
    ::unsetenv("OMPI_COMM_WORLD_RANK");
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(::openpty(&controller_, &terminal_, nullptr, nullptr, &size), 0);
  }
  ~Terminal() {
    ::close(terminal_);
    ::close(controller_);
  }
  [[nodiscard]] int descriptor() const { return terminal_; }
  // All up to the next newline.
  [[nodiscard]] std::string line() const {
    std::string seen;  // the terminal returns text in arbitrary pieces
    for (char byte = 0; byte != '\n' && ::read(controller_, &byte, 1) == 1;)
      seen += byte;
    return seen;
  }

 private:
  int controller_ = -1, terminal_ = -1;
};

TEST(Console, UpdatesOneLineOnATerminalThatAnEvaluationRemoves) {
  const Terminal terminal(80);
  Console console(options, terminal.descriptor());

  console.step(step_number(10));
  console.evaluation({.step = 10, .validation_loss = 0.25});

  EXPECT_EQ(terminal.line(),
            "\r" + format_progress(step_number(10), totals_of(step_number(10)), options, 79) +
                "\x1b[K\r"
                "\r\x1b[K"
                "step   10/1000  validation loss 0.2500  (0.0 s)\r\n");
}

TEST(Console, ProgressFollowsTheWidthOfTheTerminalAndNeverWraps) {
  const Terminal terminal(80);
  Console console(options, terminal.descriptor());
  const winsize narrow{.ws_row = 24, .ws_col = 20, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::ioctl(terminal.descriptor(), TIOCSWINSZ, &narrow), 0);

  console.step(step_number(10));
  console.evaluation({.step = 10});

  EXPECT_TRUE(terminal.line().starts_with("\rstep   10/1000\x1b[K\r\r\x1b[K"));
}

TEST(Console, TheLastStepLeavesTheTerminalClean) {
  const Terminal terminal(80);
  ConsoleOptions short_run = options;
  short_run.steps = 1;
  Console console(short_run, terminal.descriptor());

  console.step(step_number(1));
  static_cast<void>(!::write(terminal.descriptor(), "\n", 1));

  EXPECT_EQ(terminal.line(), "\r\x1b[K\r\n");
}

TEST(Console, ATerminalThatCannotRedrawGetsPlainLines) {
  const Terminal terminal(80);
  ::setenv("TERM", "dumb", 1);
  {
    Console console(options, terminal.descriptor());
    console.step(step_number(9));
    console.step(step_number(10));
  }

  EXPECT_TRUE(terminal.line().starts_with("step   10/1000  loss 2.5000 (mean of 2 steps"));
}

}  // namespace
}  // namespace trireme
