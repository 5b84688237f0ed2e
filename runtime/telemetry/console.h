// SPDX-License-Identifier: Apache-2.0
// What a person sees of a run: one line per log_every steps, a progress bar redrawn in place
// between the lines on a terminal, and a summary that says where the time went.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/telemetry/verdict.h"

namespace trireme {

struct ConsoleOptions {
  std::int64_t steps = 0;      // the run's last step; for progress and the estimated time left
  std::int64_t log_every = 1;  // 0 = no lines
  ItemKind items = ItemKind::tokens;
  RunFacts facts{};  // for the verdict's advice
};

// Longest text that any formatter below writes.
inline constexpr std::size_t console_text_bytes = 2048;
using ConsoleText = std::span<char, console_text_bytes>;

// Pure formatters; each returns the part of `to` that it used, and none but the summary's
// allocates. Loss, lr, norm and scale are those of the last step, as metrics.jsonl has them, here
// and in the bar; the mean of the losses, the rates and the times cover all steps of the window.
// "step 120/1000  loss 2.3456 (mean of 10 steps 2.4012)  lr 1.00e-03  norm 0.84  12.3k tokens/s"
[[nodiscard]] std::string_view format_step_line(const StepMetrics& last, const StepTotals& window,
                                                const ConsoleOptions& options, ConsoleText to);
[[nodiscard]] std::string_view format_evaluation_line(const EvaluationMetrics& metrics,
                                                      const ConsoleOptions& options,
                                                      ConsoleText to);
// At most `width` columns: "[#####-----]  52 %  step 520/1000  loss 1.62  eta 1:05".
[[nodiscard]] std::string_view format_progress_bar(const StepMetrics& last,
                                                   const StepTotals& window,
                                                   const ConsoleOptions& options, std::size_t width,
                                                   ConsoleText to);
// Lines for what was done, where the time went, how much of the reduction of gradients was hidden
// (where there was one), and the verdict.
[[nodiscard]] std::string_view format_summary(const RunSummary& summary,
                                              const ConsoleOptions& options, ConsoleText to);
// "12.3k", "4.56M": three significant digits.
[[nodiscard]] std::string_view format_quantity(double value, std::span<char, 32> to);
// "0:07", "12:05", "3:04:05".
[[nodiscard]] std::string_view format_duration(double seconds, std::span<char, 32> to);

// Writes the above to a descriptor; rank 0 only. A console that cannot be written to (a closed
// pipe, a full disk under a redirection) never ends a run.
class Console {
 public:
  // `descriptor` stays the caller's.
  explicit Console(const ConsoleOptions& options, int descriptor = 1);

  void step(const StepMetrics& metrics);
  void evaluation(const EvaluationMetrics& metrics);
  // Fills in `totals` (all steps seen) before printing.
  void finish(RunSummary summary);
  // Removes the bar, so that another writer (the log on stderr) starts on a clean line.
  void clear_bar();
  [[nodiscard]] const StepTotals& totals() const { return totals_; }

 private:
  void print_line(std::string_view line);
  void draw_bar(const StepMetrics& metrics);
  void put(std::string_view text) const;

  ConsoleOptions options_;
  int descriptor_;
  std::size_t bar_width_;  // 0 where the output is no terminal
  bool bar_shown_ = false;
  std::chrono::steady_clock::time_point bar_time_{};
  StepTotals totals_;
  StepTotals window_;  // since the last line
  std::array<char, console_text_bytes> text_{};
};

}  // namespace trireme
