// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/console.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>

#include "tests/support/allocation_count.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

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
          .step_ms = 250,
          .data_wait_ms = 0.5,
          .exposed_comm_ms = 25};
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
  std::array<char, console_text_bytes> text;
  StepTotals window = totals_of(step_number(119));
  StepMetrics last = step_number(120);
  last.loss = 1.5;
  last.grad_norm = 1.25;
  window.add(last);

  EXPECT_EQ(format_step_line(last, window, options, text),
            "step  120/1000  loss 1.5000 (mean of 2 steps 2.0000)  lr 1.00e-03  norm 1.250"
            "  16.4k tokens/s  250.0 ms"
            "  data 0.2 %  comm 10.0 %  eta 3:40\n");
}

TEST(ConsoleFormat, AStepLineOfAnEmptyWindowDividesByNothing) {
  std::array<char, console_text_bytes> text;

  EXPECT_EQ(format_step_line(StepMetrics{}, StepTotals{}, options, text),
            "step    0/1000  loss 0.0000  lr 0.00e+00  norm 0.000  0.00 tokens/s  0.0 ms"
            "  data 0.0 %  comm 0.0 %  eta 0:00\n");
}

TEST(ConsoleFormat, AnEvaluationLineShowsAccuracyInPercent) {
  std::array<char, console_text_bytes> text;

  EXPECT_EQ(format_evaluation_line(
                {.step = 200, .validation_loss = 0.25, .accuracy = 0.9123, .evaluation_ms = 1500},
                options, text),
            "step  200/1000  validation loss 0.2500  accuracy 91.23 %  (1.5 s)\n");
  EXPECT_EQ(format_evaluation_line({.step = 200, .validation_loss = 0.25}, options, text),
            "step  200/1000  validation loss 0.2500  (0.0 s)\n");
}

TEST(ConsoleFormat, TheBarFillsTheWidthItIsGiven) {
  std::array<char, console_text_bytes> text;
  const StepMetrics last = step_number(500);
  const StepTotals window = totals_of(last);

  EXPECT_EQ(format_progress_bar(last, window, options, 60, text),
            "[######-------]   50 %  step 500/1000  loss 2.5000  eta 2:05");
  EXPECT_EQ(format_progress_bar(last, window, options, 30, text), " 50 %  step 500/1000  loss 2.5");
  for (std::size_t width = 0; width < 200; ++width) {
    EXPECT_LE(format_progress_bar(last, window, options, width, text).size(), width);
  }
}

TEST(ConsoleFormat, QuantitiesHaveThreeDigits) {
  std::array<char, 32> text;
  const std::pair<double, const char*> cases[] = {
      {0, "0.00"},        {0.5, "0.50"},    {9.994, "9.99"},     {9.996, "10.0"}, {99.96, "100"},
      {999.4, "999"},     {999.6, "1.00k"}, {12345, "12.3k"},    {1e6, "1.00M"},  {2.5e9, "2.50G"},
      {999.6e3, "1.00M"}, {123e12, "123T"}, {12345e12, "12345T"}};

  for (const auto& [value, expected] : cases)
    EXPECT_EQ(format_quantity(value, text), expected);
}

TEST(ConsoleFormat, DurationsAreReadAsAClock) {
  std::array<char, 32> text;

  EXPECT_EQ(format_duration(0.4, text), "0:00");
  EXPECT_EQ(format_duration(7, text), "0:07");
  EXPECT_EQ(format_duration(59.6, text), "1:00");
  EXPECT_EQ(format_duration(725, text), "12:05");
  EXPECT_EQ(format_duration(11045, text), "3:04:05");
  EXPECT_EQ(format_duration(std::nan(""), text), "-");
  EXPECT_EQ(format_duration(1e300, text), "-");
}

TEST(ConsoleFormat, TheSummarySaysWhereTheTimeWent) {
  std::array<char, console_text_bytes> text;
  const RunSummary summary{.totals = totals_of(step_number(1), 400),
                           .wall_seconds = 110,
                           .evaluation_seconds = 8,
                           .peak_memory_bytes = 312ULL << 20};

  EXPECT_EQ(format_summary(summary, options, text),
            "done: 400 steps in 1:50, 16.4k tokens/s, peak memory 312 MiB per rank\n"
            "time: compute 89.8 s (81.6 %), exposed communication 10.0 s (9.1 %), data wait 0.2 s"
            " (0.2 %), evaluation 8.0 s (7.3 %), other 2.0 s (1.8 %)\n"
            "verdict: without its exposed communication (9.1 %) this run would be 1.10 times as"
            " fast; raise train.global_batch: gradients are exchanged once in a step, or use fewer"
            " ranks\n");
}

TEST(ConsoleFormat, APipelineShowsItsBubble) {
  std::array<char, console_text_bytes> text;
  StepMetrics metrics = step_number(120);
  metrics.bubble_ms = 50;
  constexpr ConsoleOptions options{.steps = 1000, .facts = {.ranks = 2, .pipeline = 2}};
  const RunSummary summary{.totals = totals_of(metrics, 400), .wall_seconds = 100};

  EXPECT_EQ(format_step_line(metrics, totals_of(metrics), options, text),
            "step  120/1000  loss 2.5000  lr 1.00e-03  norm 0.750  16.4k tokens/s  250.0 ms"
            "  data 0.2 %  comm 10.0 %  bubble 20.0 %  eta 3:40\n");
  EXPECT_EQ(format_summary(summary, options, text),
            "done: 400 steps in 1:40, 16.4k tokens/s, peak memory 0 MiB per rank\n"
            "time: compute 69.8 s (69.8 %), exposed communication 10.0 s (10.0 %), pipeline bubble"
            " 20.0 s (20.0 %), data wait 0.2 s (0.2 %), evaluation 0.0 s (0.0 %), other 0.0 s"
            " (0.0 %)\n"
            "verdict: without its pipeline bubble (20.0 %) this run would be 1.25 times as fast;"
            " raise train.global_batch or lower parallel.pipeline, or try parallel.schedule:"
            " zero-bubble\n");
}

TEST(ConsoleFormat, ReductionsTellHowMuchWasHidden) {
  std::array<char, console_text_bytes> text;
  StepMetrics metrics = step_number(120);
  metrics.reduce_wait_ms = 25;
  metrics.reduce_ms = 200;
  const RunSummary summary{.totals = totals_of(metrics, 400), .wall_seconds = 100};

  EXPECT_NE(format_summary(summary, options, text)
                .find("\ngradient reduction: 80.0 s, 87.5 % hidden, 12.5 % exposed\n"),
            std::string_view::npos);
}

TEST(ConsoleFormat, ARunBoundByComputationIsSaidToBeSo) {
  std::array<char, console_text_bytes> text;
  StepMetrics metrics = step_number(1);
  metrics.exposed_comm_ms = 2;

  const auto summary =
      format_summary({.totals = totals_of(metrics, 400), .wall_seconds = 101}, options, text);

  EXPECT_TRUE(
      summary.ends_with("verdict: bound by computation; no other part takes more than 1.0 %\n"))
      << summary;
}

TEST(ConsoleFormat, ARunWithoutStepsHasASummary) {
  std::array<char, console_text_bytes> text;

  EXPECT_TRUE(
      format_summary({}, options, text).starts_with("done: 0 steps in 0:00, 0.00 tokens/s"));
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
  EXPECT_EQ(console.totals().steps, 25);
}

TEST(Console, LogEveryZeroPrintsNoStepLines) {
  const OutputFile output;
  Console console({.steps = 2, .log_every = 0}, output.descriptor());

  console.step(step_number(1));
  console.step(step_number(2));

  EXPECT_EQ(output.text(), "");
}

TEST(Console, AStepAllocatesNothing) {
  const OutputFile output;
  Console console({.steps = 1000, .log_every = 1}, output.descriptor());
  console.step(step_number(1));
  const auto before = test::allocations.load();

  for (std::int64_t step = 2; step < 100; ++step)
    console.step(step_number(step));

  EXPECT_EQ(test::allocations.load(), before);
}

TEST(Console, AClosedOutputDoesNotEndTheRun) {
  Console console({.steps = 2, .log_every = 1}, -1);

  EXPECT_NO_THROW(console.step(step_number(1)));
}

TEST(Console, DrawsABarOnATerminalAndErasesItBeforeALine) {
  ::setenv("TERM", "xterm", 1);
  ::unsetenv("OMPI_COMM_WORLD_RANK");
  int controller = -1, terminal = -1;
  const winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::openpty(&controller, &terminal, nullptr, nullptr, &size), 0);
  Console console(options, terminal);

  console.step(step_number(9));
  console.step(step_number(10));

  std::string seen;  // the terminal hands on what was written in pieces of its choice
  for (char byte = 0; byte != '\n' && ::read(controller, &byte, 1) == 1;)
    seen += byte;
  EXPECT_TRUE(seen.starts_with("\r\x1b[K[-----")) << seen;
  EXPECT_NE(seen.find("\r\x1b[Kstep   10/1000"), std::string::npos) << seen;
  ::close(terminal);
  ::close(controller);
}

}  // namespace
}  // namespace trireme
