// SPDX-License-Identifier: Apache-2.0
// A run's output for people. On a terminal one line updates in place and shows loss, throughput,
// time left and time shares; elsewhere there is a line per log_every steps. Both end with a
// summary.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/telemetry/time_left.h"

namespace trireme {

struct ConsoleOptions {
  std::int64_t steps = 0;      // the run's last step; for progress and the estimated time left
  std::int64_t log_every = 1;  // 0 = no lines
  ItemKind items = ItemKind::tokens;
  RunFacts facts{};  // for the advice of the bottleneck analysis
};

// The time left is estimated from steps in `window`, and from evaluations and checkpoints in
// `pace`. Loss, lr, norm and scale are the last step's, as in metrics.jsonl; mean loss, rates and
// times cover all steps of the window. Lines end with a newline.
// "step 120/1000  loss 2.3456 (mean of 10 steps 2.4012)  lr 1.00e-03  norm 0.84  12.3k tokens/s"
[[nodiscard]] std::string format_step_line(const StepMetrics& last, const StepTotals& window,
                                           const ConsoleOptions& options, const Pace& pace = {});
[[nodiscard]] std::string format_evaluation_line(const EvaluationMetrics& metrics,
                                                 const ConsoleOptions& options);
// At most `width` columns; omits parts that do not fit; no newline:
// "step 520/1000  loss 1.6201  12.3k tokens/s  eta 1:05  compute 88 %  comm 10 %  data 2 %".
[[nodiscard]] std::string format_progress(const StepMetrics& last, const StepTotals& window,
                                          const ConsoleOptions& options, std::size_t width,
                                          const Pace& pace = {});
// The run's work, its time split, the overlap of gradient reduction (if there was one), and the
// bottleneck.
[[nodiscard]] std::string format_summary(const RunSummary& summary, const ConsoleOptions& options);
// "12.3k", "4.56M": three significant digits.
[[nodiscard]] std::string format_quantity(double value);
// "0:07", "12:05", "3:04:05".
[[nodiscard]] std::string format_duration(double seconds);

// Writes the above to a descriptor; rank 0 only. Lines also go to the kept log; step lines on a
// terminal go only there. A console that cannot be written (closed pipe, full disk) never ends a
// run.
class Console final : public MetricsSink {
 public:
  // The caller owns `descriptor`.
  explicit Console(const ConsoleOptions& options, int descriptor = 1);

  void step(const StepMetrics& metrics) override;
  void evaluation(const EvaluationMetrics& metrics) override;
  // Both are logged where they occur. Fills in `totals` (all steps seen) before printing.
  void finish(RunSummary summary);

 private:
  void print(std::string_view line) const;
  void draw(const StepMetrics& metrics);
  [[nodiscard]] Pace pace(std::int64_t step) const;
  void put(std::string_view text) const;

  ConsoleOptions options_;
  int descriptor_;
  bool terminal_;
  std::chrono::steady_clock::time_point drawn_{};
  StepTotals totals_;
  StepTotals window_;  // since the last line
  Divergence divergence_;
  std::int64_t items_seen_ = 0;
  double evaluation_seconds_ = 0;  // so far
  int evaluations_ = 0;
  StepTotals recent_;  // since the line before that, to smooth the progress line
};

}  // namespace trireme
