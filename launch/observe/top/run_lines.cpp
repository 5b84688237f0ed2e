// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/top/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "launch/observe/top/cells.h"
#include "runtime/telemetry/console.h"

namespace trireme::top {
namespace {

constexpr std::size_t label_columns = 11;

std::string mib(double value) {
  return value < 10240 ? fmt::format("{:.0f} MiB", value) : fmt::format("{:.1f} GiB", value / 1024);
}

// The fractions after "step": "520/2000".
std::string position(const RunView& view) {
  return view.steps > 0 ? fmt::format("{}/{}", view.step(), view.steps)
                        : std::to_string(view.step());
}

class Lines {
 public:
  Lines(const RunView& view, const FrameOptions& options) : view_(view), options_(options) {}

  std::vector<std::string> all() {
    head();
    if (view_.standing.status == RunStatus::missing) return std::move(lines_);
    progress();
    if (!view_.recent.empty()) {
      loss();
      row("norm", {number_text(view_.recent.back().number("grad_norm"), "{:.3f}"),
                   "lr " + number_text(view_.recent.back().number("lr"), "{:.2e}"),
                   "epoch " + number_text(view_.recent.back().number("epoch"), "{:.3f}")});
      speed();
      phases();
      cores();
    }
    ranks();
    memory();
    checkpoint();
    evaluation();
    warnings();
    return std::move(lines_);
  }

 private:
  void line(std::string_view text) { lines_.push_back(cut(text, options_.columns)); }
  [[nodiscard]] std::string plain(std::string_view text) const {
    return clean(text, options_.utf8);
  }

  // Parts that fit after a label; the first part is always shown, cut if necessary.
  void row(std::string_view label, const std::vector<std::string>& parts) {
    std::string text = padded(label, label_columns);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string part = (i > 0 ? "  " : "") + parts[i];
      if (i > 0 && columns_of(text) + columns_of(part) > options_.columns) break;
      text += part;
    }
    line(text);
  }
  [[nodiscard]] std::size_t behind_label() const {
    return options_.columns > label_columns ? options_.columns - label_columns : 0;
  }

  void head() {
    const std::string state(runs::name_of(view_.standing.status));
    const std::size_t rest =
        options_.columns > state.size() + 2 ? options_.columns - state.size() - 2 : 0;
    line(padded(cut_front(plain(view_.directory), rest), rest) + "  " + state);
    if (!view_.standing.text.empty()) wrapped(plain(view_.standing.text), 3);
    if (!view_.problem.empty()) wrapped(plain(view_.problem), 2);
    if (!view_.summary.empty()) line(plain(view_.summary));
  }

  // At most `most` indented lines, broken at blanks.
  void wrapped(std::string_view text, std::size_t most) {
    const std::size_t columns = std::max<std::size_t>(options_.columns, 4) - 2;
    for (std::size_t i = 0; i + 1 < most && columns_of(text) > columns; ++i) {
      const std::size_t bytes = bytes_within(text, columns);
      const std::size_t blank = text.substr(0, bytes + 1).rfind(' ');
      const std::size_t end = blank == std::string_view::npos || blank == 0 ? bytes : blank;
      line(fmt::format("  {}", text.substr(0, end)));
      text.remove_prefix(std::min(text.find_first_not_of(' ', end), text.size()));
    }
    if (!text.empty()) line("  " + cut(text, columns));
  }

  void progress() {
    const std::string place = position(view_);
    if (view_.steps == 0) return row("step", {place, "of an unknown number of steps"});
    const double share = view_.share_done();
    const std::string part = fmt::format("{:.0f} %", std::floor(100 * share));
    const bool going =
        view_.standing.status == RunStatus::running || view_.standing.status == RunStatus::stale;
    const std::string left =
        going ? fmt::format("left {}", format_duration(view_.time_left())) : std::string();
    const std::size_t taken = place.size() + part.size() + left.size() + 8;
    const std::size_t room = behind_label() > taken ? behind_label() - taken : 0;
    std::vector<std::string> parts{place};
    if (room >= 6)
      parts.push_back(
          fmt::format("[{}]", bar(share, std::min<std::size_t>(room, 40), options_.utf8)));
    parts.push_back(part);
    if (!left.empty()) parts.push_back(left);
    row("step", parts);
  }

  void loss() {
    const runs::MetricsLine& last = view_.recent.back();
    const std::string mean = fmt::format("mean of {}: {}", view_.recent.size(),
                                         number_text(view_.mean("loss"), "{:.4f}"));
    row("loss", {number_text(last.number("loss"), "{:.4f}"), mean});
    const std::string from = fmt::format("from step {}", view_.losses.first_step());
    const std::size_t room = behind_label();
    const std::size_t columns = room > from.size() + 10 ? room - from.size() - 2 : room;
    const auto values = view_.losses.columns(std::min<std::size_t>(columns, 80));
    if (values.size() > 1) row("", {sparkline(values, options_.utf8), from});
  }

  void speed() {
    const runs::MetricsLine& last = view_.recent.back();
    const double rate = view_.items_per_second();
    std::vector<std::string> parts;
    if (std::isfinite(rate))
      parts.push_back(fmt::format("{} {}/s", format_quantity(rate), last.items()));
    parts.push_back(number_text(view_.mean("step_ms"), "{:.1f}") + " ms a step");
    const double mfu = view_.mean("mfu");
    if (std::isfinite(mfu)) parts.push_back(fmt::format("MFU {:.1f} %", 100 * mfu));
    const double joules = view_.mean("joules");
    if (std::isfinite(joules)) parts.push_back(fmt::format("{} J a step", format_quantity(joules)));
    row("speed", parts);
  }

  void phases() {
    Times sums;
    for (const runs::MetricsLine& step : view_.recent)
      for (const TimeRow& row : told_times(time_use::of_step))
        sums[row.part] += std::max(step.number(row.key, 0), 0.0);
    const double whole = sums.sum(time_use::of_step);
    if (!(whole > 0)) return;
    constexpr std::size_t name_columns = 13, wide = 60;
    const bool with_times = options_.columns >= wide;
    const std::size_t taken = name_columns + 9 + (with_times ? 13 : 0);
    const std::size_t room = options_.columns > taken ? options_.columns - taken : 0;
    for (const TimeRow& row : times_in_order(time_use::of_step)) {
      const double share = sums[row.part] / whole;
      if (share < 0.0005) continue;
      std::string text =
          fmt::format("{} {} {:4.1f} %", padded(row.label(), name_columns),
                      bar(share, std::min<std::size_t>(room, 40), options_.utf8), 100 * share);
      if (with_times)
        text +=
            fmt::format(" {:>9.1f} ms", sums[row.part] / static_cast<double>(view_.recent.size()));
      line(text);
    }
  }

  // Part of the phases above.
  void cores() {
    constexpr double notable = 0.02;  // share of a step
    const double missing = view_.mean("core_wait_ms");
    const double share = missing / view_.mean("step_ms");
    if (!(share >= notable)) return;
    row("cores", {fmt::format("none for {:.1f} ms a step", missing),
                  fmt::format("{:.0f} %, within the above", 100 * share)});
  }

  void ranks() {
    const RankRows& rows = view_.ranks;
    if (!view_.ranks_problem.empty()) return row("ranks", {view_.ranks_problem});
    constexpr double notable = 0.005;  // share of a step
    if (rows.slowest.empty() || rows.slowest.front().late_ms < notable * rows.period_ms) {
      return row("ranks", {"none stands out", fmt::format("of {}, steps {} to {}", rows.ranks,
                                                          rows.first, rows.last)});
    }
    row("ranks", {"latest at collectives",
                  fmt::format("of {}, steps {} to {}", rows.ranks, rows.first, rows.last)});
    for (const SlowRankRow& one : rows.slowest) {
      if (one.late_ms < notable * rows.period_ms) break;
      const auto rank = static_cast<std::size_t>(one.rank);
      const std::string host = rank < view_.hosts.size() ? " on " + plain(view_.hosts[rank]) : "";
      row("",
          {fmt::format("rank {}{}", one.rank, host), fmt::format("{:.1f} ms a step", one.late_ms),
           fmt::format("in {:.0f} % of the steps", 100 * one.late_share)});
    }
  }

  void memory() {
    std::vector<std::string> parts;
    if (view_.resident_mib > 0) {
      parts.push_back(fmt::format("rank 0 resident: {} now", mib(view_.resident_mib)));
      parts.push_back(fmt::format("peak {}", mib(view_.peak_mib)));
    }
    if (view_.planned_mib > 0)
      parts.push_back(fmt::format("buffers of a rank: {}", mib(view_.planned_mib)));
    if (!parts.empty()) row("memory", parts);
  }

  void checkpoint() {
    std::vector<std::string> parts;
    if (!view_.save_in_progress.empty())
      parts.push_back(fmt::format("writing {}", plain(view_.save_in_progress)));
    if (view_.standing.checkpoint)
      parts.push_back(fmt::format("step {}, {} ago", view_.standing.checkpoint->step,
                                  format_duration(view_.checkpoint_age())));
    if (parts.empty()) parts.emplace_back("none");
    row("checkpoint", parts);
  }

  void evaluation() {
    if (!view_.evaluation) return;
    std::vector<std::string> parts{fmt::format(
        "{} at step {}", number_text(view_.evaluation->number("validation_loss"), "{:.4f}"),
        view_.evaluation->step())};
    for (const Quality& quality : qualities)
      if (const double value = view_.evaluation->number(quality.key); std::isfinite(value))
        parts.push_back(quality_text(quality, value));
    row("validation", parts);
  }

  void warnings() {
    if (!view_.recent.empty() && !std::isfinite(view_.recent.back().number("loss")))
      row("warning", {"the last step's loss is not finite"});
    if (!view_.standing.log_end.empty() && view_.standing.text != view_.standing.log_end)
      wrapped("log: " + plain(view_.standing.log_end), 2);
    if (view_.warnings.empty()) return;
    row("warnings", {std::to_string(view_.warning_count), "the last ones:"});
    for (const WarningLine& warning : view_.warnings)
      wrapped(fmt::format("step {}: {}", warning.step, plain(warning.text)), 3);
  }

  const RunView& view_;
  const FrameOptions& options_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> run_lines(const RunView& view, const FrameOptions& options) {
  return Lines(view, options).all();
}

}  // namespace trireme::top
