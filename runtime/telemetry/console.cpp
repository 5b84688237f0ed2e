// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/console.h"

#include <unistd.h>

#include <cerrno>

#include "runtime/base/log.h"
#include "runtime/base/text_builder.h"
#include "runtime/telemetry/terminal.h"

namespace trireme {
namespace {

constexpr std::string_view erase_line = "\r\x1b[K";
// Often enough to look alive, seldom enough to cost nothing.
constexpr std::chrono::milliseconds redraw_interval{100};

}  // namespace

Console::Console(const ConsoleOptions& options, int descriptor)
    : options_(options), descriptor_(descriptor), bar_width_(terminal_width(descriptor)) {}

void Console::step(const StepMetrics& metrics) {
  totals_.add(metrics);
  window_.add(metrics);
  const bool last = metrics.step == options_.steps;
  if (options_.log_every > 0 && (metrics.step % options_.log_every == 0 || last)) {
    print_line(format_step_line(metrics, window_, options_, text_));
    window_ = {};
  } else if (bar_width_ > 0) {
    draw_bar(metrics);
  }
}

void Console::evaluation(const EvaluationMetrics& metrics) {
  print_line(format_evaluation_line(metrics, options_, text_));
}

void Console::finish(RunSummary summary) {
  summary.totals = totals_;
  print_line(format_summary(summary, options_, text_));
}

void Console::clear_bar() {
  if (!std::exchange(bar_shown_, false)) return;
  put(erase_line);
}

void Console::print_line(std::string_view line) {
  clear_bar();
  put(line);
  log::keep(spdlog::level::info, "console", line);
}

void Console::draw_bar(const StepMetrics& metrics) {
  const auto now = std::chrono::steady_clock::now();
  if (bar_shown_ && now - bar_time_ < redraw_interval) return;
  bar_time_ = now;
  bar_shown_ = true;
  std::array<char, console_text_bytes + erase_line.size()> text;
  TextBuilder whole(text);
  // The last column stays free: many terminals wrap as soon as it is written.
  whole.add("{}{}", erase_line,
            format_progress_bar(metrics, window_, options_, bar_width_ - 1, text_));
  put(whole.view());
}

void Console::put(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t done = ::write(descriptor_, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(done));
  }
}

}  // namespace trireme
