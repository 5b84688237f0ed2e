// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/base/text_builder.h"
#include "runtime/telemetry/console.h"

namespace trireme {
namespace {

using Short = std::array<char, 32>;

double mean(double sum, std::int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : 0.0;
}

double items_per_second(const StepTotals& totals) {
  return totals.step_ms > 0 ? static_cast<double>(totals.items) * 1000 / totals.step_ms : 0.0;
}

int digits(std::int64_t value) {
  int count = 1;
  for (; value >= 10; value /= 10)
    ++count;
  return count;
}

double seconds_left(const StepMetrics& last, const StepTotals& window,
                    const ConsoleOptions& options) {
  const auto steps = std::max<std::int64_t>(options.steps - last.step, 0);
  return static_cast<double>(steps) * mean(window.step_ms, window.steps) / 1000;
}

}  // namespace

std::string_view format_quantity(double value, std::span<char, 32> to) {
  constexpr std::array units = {"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  // 999.5 would print as 1000 with three digits.
  while (value >= 999.5 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  TextBuilder text(to);
  text.add("{:.{}f}{}", value, value >= 99.95 ? 0 : (value >= 9.995 ? 1 : 2), units[unit]);
  return text.view();
}

std::string_view format_duration(double seconds, std::span<char, 32> to) {
  TextBuilder text(to);
  if (!(seconds < 1e9)) {
    text.add("-");
    return text.view();
  }
  const auto total = static_cast<std::int64_t>(std::llround(std::max(seconds, 0.0)));
  if (total >= 3600) {
    text.add("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
  } else {
    text.add("{}:{:02}", total / 60, total % 60);
  }
  return text.view();
}

std::string_view format_step_line(const StepMetrics& last, const StepTotals& window,
                                  const ConsoleOptions& options, ConsoleText to) {
  Short rate, eta;
  TextBuilder text(to);
  text.add("step {:>{}}/{}", last.step, digits(options.steps), options.steps);
  text.add("  loss {:.4f}", last.loss);
  if (window.steps > 1)
    text.add(" (mean of {} steps {:.4f})", window.steps, mean(window.loss, window.steps));
  text.add("  lr {:.2e}  norm {:.3f}", last.learning_rate, last.grad_norm);
  if (last.loss_scale) text.add("  scale {:g}  skipped {}", *last.loss_scale, last.skipped_steps);
  text.add("  {} {}/s", format_quantity(items_per_second(window), rate), name_of(options.items));
  text.add("  {:.1f} ms  data {:.1f} %  comm {:.1f} %", mean(window.step_ms, window.steps),
           percent(window.data_wait_ms, window.step_ms),
           percent(window.exposed_comm_ms, window.step_ms));
  if (window.straggler_ms > 0)
    text.add("  slower ranks {:.1f} %", percent(window.straggler_ms, window.step_ms));
  if (window.bubble_ms > 0)
    text.add("  bubble {:.1f} %", percent(window.bubble_ms, window.step_ms));
  text.add("  eta {}\n", format_duration(seconds_left(last, window, options), eta));
  return text.view();
}

std::string_view format_evaluation_line(const EvaluationMetrics& metrics,
                                        const ConsoleOptions& options, ConsoleText to) {
  TextBuilder text(to);
  text.add("step {:>{}}/{}  validation loss {:.4f}", metrics.step, digits(options.steps),
           options.steps, metrics.validation_loss);
  if (metrics.accuracy) text.add("  accuracy {:.2f} %", 100 * *metrics.accuracy);
  text.add("  ({:.1f} s)\n", metrics.evaluation_ms / 1000);
  return text.view();
}

std::string_view format_progress_bar(const StepMetrics& last, const StepTotals& window,
                                     const ConsoleOptions& options, std::size_t width,
                                     ConsoleText to) {
  constexpr std::size_t longest_bar = 40;
  constexpr std::size_t shortest_bar = 5;
  Short eta;
  std::array<char, 160> right;
  TextBuilder words(right);
  const double part = std::clamp(
      percent(static_cast<double>(last.step), static_cast<double>(options.steps)), 0.0, 100.0);
  words.add("{:3.0f} %  step {}/{}  loss {:.4f}  eta {}", std::floor(part), last.step,
            options.steps, last.loss, format_duration(seconds_left(last, window, options), eta));

  TextBuilder text(to.first(std::min(width, to.size())));
  const std::size_t around = words.size() + 4;  // brackets and two spaces
  if (width >= around + shortest_bar) {
    const std::size_t bar = std::min(width - around, longest_bar);
    const auto filled = static_cast<std::size_t>(static_cast<double>(bar) * part / 100);
    text.add("[{:#<{}}{:-<{}}]  ", "", filled, "", bar - filled);
  }
  text.add("{}", words.view());
  return text.view();
}

std::string_view format_summary(const RunSummary& summary, const ConsoleOptions& options,
                                ConsoleText to) {
  Short wall, rate;
  TextBuilder text(to);
  text.add("done: {} steps in {}, {} {}/s, peak memory {:.0f} MiB per rank\n", summary.totals.steps,
           format_duration(summary.wall_seconds, wall),
           format_quantity(items_per_second(summary.totals), rate), name_of(options.items),
           static_cast<double>(summary.peak_memory_bytes) / 0x1p20);
  text.add("time: ");
  std::string_view separator;
  for (const TimeShare& share : shares_of(summary)) {
    if (!share.always_shown && share.seconds == 0) continue;
    text.add("{}{} {:.1f} s ({:.1f} %)", separator, share.name, share.seconds,
             percent(share.seconds, summary.wall_seconds));
    separator = ", ";
  }
  text.add("\n");
  if (const StepTotals& totals = summary.totals; totals.reduce_ms > 0) {
    const double exposed = std::min(percent(totals.reduce_wait_ms, totals.reduce_ms), 100.0);
    text.add("gradient reduction: {:.1f} s, {:.1f} % hidden, {:.1f} % exposed\n",
             totals.reduce_ms / 1000, 100 - exposed, exposed);
  }
  text.add("{}\n", verdict(summary, options.facts));
  return text.view();
}

}  // namespace trireme
