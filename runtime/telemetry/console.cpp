// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <utility>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/terminal.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// Frequent enough to look alive, rare enough to cost nothing.
constexpr std::chrono::milliseconds redraw_interval{100};

double mean(double sum, std::int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : 0.0;
}

std::string throughput(const StepTotals& window, ItemKind items) {
  const double seconds = 1e-3 * window[TimePart::step];
  const double rate = seconds > 0 ? static_cast<double>(window.items) / seconds : 0.0;
  return fmt::format("{} {}/s", format_quantity(rate), name_of(items));
}

std::string time_left(const StepMetrics& last, const StepTotals& window,
                      const ConsoleOptions& options, Pace pace) {
  pace.step = 1e-3 * mean(window[TimePart::step], window.steps);
  return format_duration(seconds_left(last.step, options.steps, options.facts, pace));
}

std::string position(std::int64_t step, const ConsoleOptions& options) {
  const std::string steps = std::to_string(options.steps);
  return fmt::format("step {:>{}}/{}", step, steps.size(), steps);
}

}  // namespace

std::string format_quantity(double value) {
  constexpr std::array units = {"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  // 999.5 would print as 1000 with three digits.
  for (; value >= 999.5 && unit + 1 < units.size(); ++unit)
    value /= 1000;
  return fmt::format("{:.{}f}{}", value, value >= 99.95 ? 0 : (value >= 9.995 ? 1 : 2),
                     units[unit]);
}

std::string format_duration(double seconds) {
  if (!(seconds < 1e9)) return "-";
  const auto total = std::llround(std::max(seconds, 0.0));
  const auto rest = fmt::format("{:02}", total % 60);
  return total >= 3600 ? fmt::format("{}:{:02}:{}", total / 3600, total / 60 % 60, rest)
                       : fmt::format("{}:{}", total / 60, rest);
}

std::string format_step_line(const StepMetrics& last, const StepTotals& window,
                             const ConsoleOptions& options, const Pace& pace) {
  std::string text = fmt::format("{}  loss {:.4f}", position(last.step, options), last.loss);
  if (window.steps > 1) {
    text +=
        fmt::format(" (mean of {} steps {:.4f})", window.steps, mean(window.loss, window.steps));
  }
  text += fmt::format("  lr {:.2e}  norm {:.3f}", last.learning_rate, last.grad_norm);
  if (last.loss_scale)
    text += fmt::format("  scale {:g}  skipped {}", *last.loss_scale, last.skipped_steps);
  if (!last.expert_loads.empty()) {
    const ExpertLoad& worst = worst_of(last.expert_loads);
    text += fmt::format("  experts {:.2f}x mean, {} dead", worst.max_over_mean, worst.dead);
  }
  text += fmt::format("  {}  {:.1f} ms", throughput(window, options.items),
                      mean(window[TimePart::step], window.steps));
  for (const TimeRow& row : times_in_order(time_use::waiting)) {
    if (row.is(time_use::always) || window[row.part] > 0)
      text += fmt::format("  {} {:.1f} %", row.word(),
                          percent(window[row.part], window[TimePart::step]));
  }
  return text + fmt::format("  eta {}\n", time_left(last, window, options, pace));
}

std::string format_evaluation_line(const EvaluationMetrics& metrics,
                                   const ConsoleOptions& options) {
  const auto numbers = [](double loss, const Qualities& quality) {
    return fmt::format("loss {:.4f}{}", loss, qualities_text(quality, "  "));
  };
  std::string text =
      fmt::format("{}  validation {}  ({:.1f} s)\n", position(metrics.step, options),
                  numbers(metrics.validation_loss, metrics.quality), 1e-3 * metrics.evaluation_ms);
  for (const EvaluationMetrics::Source& source : metrics.sources)
    text += fmt::format("{}  validation of {}: {}\n", position(metrics.step, options), source.name,
                        numbers(source.loss, source.quality));
  return text;
}

std::string format_progress(const StepMetrics& last, const StepTotals& window,
                            const ConsoleOptions& options, std::size_t width, const Pace& pace) {
  std::vector<std::string> parts = {fmt::format("loss {:.4f}", last.loss),
                                    throughput(window, options.items),
                                    "eta " + time_left(last, window, options, pace)};
  const double whole = 1e-3 * window[TimePart::step];
  const Times seconds = seconds_of({.totals = window, .wall_seconds = whole});
  for (const TimeRow& row : told_times(time_use::of_run)) {
    const double part = percent(seconds[row.part], whole);
    if (part >= 0.5) parts.push_back(fmt::format("{} {:.0f} %", row.word(), part));
  }
  std::string text = position(last.step, options).substr(0, width);
  for (const std::string& part : parts) {
    if (text.size() + 2 + part.size() > width) break;
    text += "  " + part;
  }
  return text;
}

std::string format_summary(const RunSummary& summary, const ConsoleOptions& options) {
  const StepTotals& totals = summary.totals;
  std::string text = fmt::format(
      "done: {} steps in {}{}, {} {}/s over all of it, {} in the steps alone; resident "
      "memory of a rank at most {:.0f} MiB\n",
      totals.steps, format_duration(summary.wall_seconds),
      summary.starts > 1
          ? fmt::format(" ({} of them between its {} starts)",
                        format_duration(1e-3 * totals[TimePart::stopped]), summary.starts)
          : "",
      format_quantity(summary.wall_seconds > 0
                          ? static_cast<double>(totals.items) / summary.wall_seconds
                          : 0.0),
      name_of(options.items), throughput(totals, options.items),
      static_cast<double>(summary.peak_memory_bytes) / 0x1p20);
  if (totals.joule_items > 0) {
    const std::string_view item = name_of(options.items);
    text += fmt::format("energy: {} J, {:.3g} J per {}\n", format_quantity(totals.joules),
                        totals.joules / static_cast<double>(totals.joule_items),
                        item.substr(0, item.size() - 1));
  }
  return text + end_of_run_text(summary, options.facts) + "\n";
}

Console::Console(const ConsoleOptions& options, int descriptor)
    : options_(options), descriptor_(descriptor), terminal_(terminal_width(descriptor) > 0) {}

void Console::step(const StepMetrics& metrics) {
  for (StepTotals* const sum : {&totals_, &window_, &recent_})
    sum->add(metrics);
  items_seen_ = metrics.items_seen;
  divergence_.add(metrics.step, metrics.loss);
  const bool last = metrics.step == options_.steps;
  if (terminal_) last ? put(line_start(descriptor_)) : draw(metrics);
  if (options_.log_every == 0 || (metrics.step % options_.log_every != 0 && !last)) return;
  const std::string line = format_step_line(metrics, window_, options_, pace(metrics.step));
  if (!terminal_) put(line);
  log::keep(spdlog::level::info, "console", line);
  recent_ = std::exchange(window_, {});
}

void Console::evaluation(const EvaluationMetrics& metrics) {
  evaluation_seconds_ += 1e-3 * metrics.evaluation_ms;
  ++evaluations_;
  print(format_evaluation_line(metrics, options_));
}

Pace Console::pace(std::int64_t step) const {
  return {.step = 0,
          .evaluation = mean(evaluation_seconds_, evaluations_),
          .checkpoint = checkpoint_seconds(totals_, step, options_.facts)};
}

void Console::finish(RunSummary summary) {
  if (summary.starts == 1)
    summary.totals = totals_;
  else
    summary.totals.items = items_seen_;  // ranks.jsonl has neither items nor energy
  summary.divergence = divergence_;
  print(format_summary(summary, options_));
}

void Console::print(std::string_view line) const {
  put(fmt::format("{}{}", line_start(descriptor_), line));
  log::keep(spdlog::level::info, "console", line);
}

void Console::draw(const StepMetrics& metrics) {
  const auto now = Clock::now();
  if (now - drawn_ < redraw_interval) return;
  drawn_ = now;
  // The last column stays free: many terminals wrap once it is written.
  const std::size_t width = std::max<std::size_t>(terminal_width(descriptor_), 1) - 1;
  put(fmt::format("\r{}\x1b[K\r",
                  format_progress(metrics, recent_, options_, width, pace(metrics.step))));
}

void Console::put(std::string_view text) const {
  const std::lock_guard lock(terminal_mutex());
  while (!text.empty()) {
    const ssize_t done = ::write(descriptor_, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(done));
  }
}

}  // namespace trireme
