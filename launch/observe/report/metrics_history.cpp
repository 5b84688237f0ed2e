// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/report/metrics_history.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "launch/run/metrics_line.h"
#include "runtime/base/line_reader.h"
#include "runtime/telemetry/lines/line_file.h"

namespace trireme::report {
namespace {

class MetricsReading {
 public:
  MetricsReading(const std::string& path, std::span<const RunStart> starts)
      : reader_(path), starts_(starts.begin(), starts.end()) {
    std::ranges::sort(starts_, {}, &RunStart::time);
  }

  MetricsHistory run() {
    while (const auto line = reader_.next()) {
      ++history_.lines;
      if (!take(*line)) {
        if (history_.broken++ == 0) history_.first_broken = reader_.number();
      }
    }
    history_.too_long = reader_.too_long();
    history_.torn_end = reader_.torn_end();
    // A line is written after the time that it reports, so the clock misses time of a short run.
    history_.running_seconds =
        std::max(history_.running_seconds,
                 1e-3 * history_.totals[TimePart::step] + history_.evaluation_seconds);
    return std::move(history_);
  }

 private:
  // False if the line is invalid.
  bool take(std::string_view text) {
    using Kind = runs::MetricsLine::Kind;
    const Kind kind = line_.parse(text);
    step_ = line_.step();
    if (kind == Kind::broken) return false;
    if (kind == Kind::other)
      ++history_.of_no_kind;
    else if (kind == Kind::step)
      take_step();
    else if (kind == Kind::evaluation)
      take_evaluation();
    else
      take_event(kind);
    return true;
  }

  [[nodiscard]] double number(std::string_view key) const { return line_.number(key, 0.0); }

  // Advances the clock to this line, which reports `work` seconds. Returns the seconds since the
  // previous line that were neither work nor a pause.
  double pass_time(double work) {
    constexpr double patience_seconds = 30, patience_times = 20;
    const auto now = timestamp_seconds(line_.timestamp());
    double between = 0;
    const double behind = std::exchange(behind_, 0);
    if (!now) {
      history_.running_seconds += work;
    } else if (history_.last_time == 0) {
      lose_before(*now, std::numeric_limits<double>::infinity());
      history_.first_time = *now - work;
      history_.running_seconds += work;
      history_.last_time = *now;
    } else {
      const double passed = *now - history_.last_time;
      if (passed < -1) {
        ++history_.clock_jumps;
        if (same_jump(last_pause_, -passed)) forget_last_pause();
        set_back_ = -passed;
        history_.running_seconds += work;
      } else if (same_jump(set_back_, passed - work)) {
        set_back_ = 0;  // and forward again
        history_.running_seconds += work;
      } else if (passed > work + patience_seconds + patience_times * work ||
                 (passed > work && started_before(*now))) {
        last_pause_ = passed - work - lose_before(*now, passed - work);
        history_.pauses.add({step_, last_pause_, *now});
        history_.paused_seconds += last_pause_;
        history_.running_seconds += work;
      } else {
        history_.running_seconds += std::max(passed, 0.0);
        // A line may be written late and the next one soon after it; the second has the time that
        // the first lacks.
        const double rest = std::max(passed, 0.0) - work + behind;
        behind_ = std::min(rest, 0.0);
        between = std::max(rest, 0.0);
      }
      // After a clock was set back, continues from there.
      history_.last_time = *now;
    }
    return between;
  }

  // Whether a start lies between the last line and `time`.
  [[nodiscard]] bool started_before(double time) {
    while (next_start_ < starts_.size() &&
           seconds_since_1970(starts_[next_start_].time) <= history_.last_time)
      ++next_start_;
    return next_start_ < starts_.size() && seconds_since_1970(starts_[next_start_].time) <= time;
  }

  // Counts these starts; returns their lost seconds, at most `most`.
  double lose_before(double time, double most) {
    double seconds = 0;
    for (; started_before(time); ++next_start_) {
      history_.lost.steps += starts_[next_start_].lost.steps;
      seconds += starts_[next_start_].lost.seconds;
    }
    seconds = std::min(seconds, most);
    history_.lost.seconds += seconds;
    return seconds;
  }

  // A clock was set forward and back, or the lines of two hosts alternate.
  static bool same_jump(double one, double other) {
    return one > 1 && other > 1 && std::abs(one - other) <= std::max(1.0, 0.1 * one);
  }

  // The pause was a clock change.
  void forget_last_pause() {
    Few<Pause>& pauses = history_.pauses;
    if (static_cast<std::int64_t>(pauses.first.size()) == pauses.count) pauses.first.pop_back();
    --pauses.count;
    history_.paused_seconds -= std::exchange(last_pause_, 0);
  }

  void follow(double step_seconds) {
    MetricsHistory& all = history_;
    if (all.steps++ == 0) {
      all.first_step = step_;
      if (step_ > 1) all.missing_steps += step_ - 1;
    } else if (step_ <= all.last_step) {
      ++pass_;
      all.went_back.add({step_, fmt::format("from step {} to step {} at {}", all.last_step, step_,
                                            line_.timestamp().substr(0, 40))});
    } else if (step_ > all.highest_step + 1) {
      all.missing_steps += step_ - all.highest_step - 1;
    }
    if (step_ <= all.highest_step) {
      ++all.repeated_steps;
      all.repeated_seconds += step_seconds;
    }
    all.last_step = step_;
    all.highest_step = std::max(all.highest_step, step_);
  }

  void take_step() {
    const double milliseconds = std::max(number("step_ms"), 0.0);
    const double between = pass_time(1e-3 * milliseconds);
    follow(1e-3 * milliseconds);
    MetricsHistory& all = history_;
    Bucket& bucket = all.buckets.at(step_, pass_);
    bool finite = true;
    const auto numbers = line_.numbers();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto& [key, value] = numbers[i];
      if (key == "step") continue;
      const bool is_finite = std::isfinite(value);
      if (!is_finite && (key == "loss" || key == "grad_norm")) finite = false;
      if (is_finite) all.buckets.add(bucket, column_of(i, key), value);
    }
    all.buckets.add(bucket, column_of(numbers.size(), elapsed_column), all.running_seconds);
    all.buckets.add(bucket, column_of(numbers.size() + 1, between_column), 1e3 * between);
    if (const double whole = all.whole_seconds(); whole > 0) {
      const double useful =
          1e-3 * (all.totals[TimePart::step] + milliseconds) - all.repeated_seconds;
      all.buckets.add(bucket, column_of(numbers.size() + 2, goodput_column),
                      std::clamp(useful / whole, 0.0, 1.0));
    }
    if (!finite) all.non_finite.add(step_);
    all.divergence.add(step_, *line_.find("loss"));
    take_loads();
    sum_up();
  }

  // Keys of step lines seldom change: first tries the column of the previous line's i-th key.
  std::size_t column_of(std::size_t i, std::string_view key) {
    if (hints_.size() <= i) hints_.resize(i + 1, Buckets::none);
    const auto names = history_.buckets.columns();
    if (hints_[i] >= names.size() || names[hints_[i]] != key)
      hints_[i] = history_.buckets.column(key);
    return hints_[i];
  }

  void sum_up() {
    MetricsHistory& all = history_;
    StepTotals& totals = all.totals;
    ++totals.steps;
    for (const TimeRow& row : told_times(time_use::metric))
      totals.times[row.part] += number(row.key);
    const double items_before = item_sum_;
    if (const std::string items(line_.items()); !items.empty()) {
      all.items = items;
      item_sum_ += 1e-3 * number("step_ms") * number(items + "_per_s");
      totals.items = static_cast<std::int64_t>(std::min(item_sum_, 9e18));
      const double seen = line_.number(items + "_seen");
      if (std::isfinite(seen)) all.items_seen = seen;
    }
    if (const double* const joules = line_.find("joules")) {
      totals.joules += number("joules");
      joule_item_sum_ += std::isfinite(*joules) ? item_sum_ - items_before : 0.0;
      totals.joule_items = static_cast<std::int64_t>(std::min(joule_item_sum_, 9e18));
    }
    const double loss = *line_.find("loss");
    if (std::isfinite(loss)) {
      totals.loss += loss;
      if (!all.first_loss) all.first_loss = loss;
      if (!all.lowest_loss || loss < *all.lowest_loss) {
        all.lowest_loss = loss;
        all.lowest_loss_step = step_;
      }
    }
    all.last_loss = loss;
    const double* const rate = line_.find("lr");
    if (rate != nullptr) all.last_lr = *rate;
  }

  void take_loads() {
    if (line_.loads().empty()) return;
    history_.loads = line_.loads();
    history_.loads_step = step_;
    const double highest = worst_of(history_.loads).max_over_mean;
    if (highest <= history_.highest_load) return;
    history_.highest_load = highest;
    history_.highest_load_step = step_;
  }

  void take_evaluation() {
    constexpr std::size_t most = 4000;
    MetricsHistory& all = history_;
    const double seconds = 1e-3 * std::max(number("evaluation_ms"), 0.0);
    static_cast<void>(pass_time(seconds));
    all.evaluation_seconds += seconds;
    Evaluation one{.step = step_,
                   .loss = *line_.find("validation_loss"),
                   .seconds = seconds,
                   .elapsed = all.running_seconds};
    for (const Quality& quality : qualities)
      if (const double value = line_.number(quality.key); std::isfinite(value))
        one.quality.*quality.value = value;
    one.sources = line_.sources();
    // If there are too many, every second one is dropped; the newest always stays.
    if (std::exchange(provisional_, all.evaluation_count++ % every_ != 0))
      all.evaluations.pop_back();
    all.evaluations.push_back(std::move(one));
    if (all.evaluations.size() < most) return;
    every_ *= 2;
    provisional_ = false;
    for (std::size_t i = 0; 2 * i < all.evaluations.size(); ++i)
      std::swap(all.evaluations[i], all.evaluations[2 * i]);
    all.evaluations.resize((all.evaluations.size() + 1) / 2);
  }

  void take_event(runs::MetricsLine::Kind kind) {
    if (kind == runs::MetricsLine::Kind::skipped) {
      history_.skipped.add(
          {step_, fmt::format("{}, {} deviations above the mean, samples {}", line_.text("skipped"),
                              line_.text("deviations"), line_.text("samples").substr(0, 400))});
    } else if (kind == runs::MetricsLine::Kind::failed_save) {
      history_.failed_saves.add({step_, line_.text("checkpoint_failed").substr(0, 400)});
    } else {
      history_.warnings.add(
          {step_, fmt::format("{}: {}", line_.text("warning"), line_.text("text")).substr(0, 400)});
    }
  }

  LineReader reader_;
  std::vector<RunStart> starts_;  // by time
  std::size_t next_start_ = 0;
  runs::MetricsLine line_;
  MetricsHistory history_;
  std::vector<std::size_t> hints_;
  std::int64_t step_ = 0, pass_ = 0, every_ = 1;
  double item_sum_ = 0;
  double joule_item_sum_ = 0;  // over the steps with known energy
  double behind_ = 0;  // seconds, at most 0, that the lines so far are behind what they report
  double set_back_ = 0, last_pause_ = 0;  // seconds, of the clock's last step back, and of that
  bool provisional_ = false;              // the next evaluation replaces the last
};

}  // namespace

MetricsHistory read_metrics(const std::string& path, std::span<const RunStart> starts) {
  return MetricsReading(path, starts).run();
}

}  // namespace trireme::report
