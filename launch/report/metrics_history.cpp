// SPDX-License-Identifier: Apache-2.0
#include "launch/report/metrics_history.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/json.h"
#include "runtime/base/line_reader.h"

namespace trireme::report {
namespace {

using MetricsJson = nlohmann::json;

constexpr double largest_step = 0x1p53;  // beyond, JSON's readers lose count

// What one line says, taken in without building a document: a gigabyte of metrics has millions.
class LineScanner : public nlohmann::json_sax<MetricsJson> {
 public:
  struct Value {
    std::string key;
    double value = 0;  // NaN of null
  };
  std::vector<Value> values;  // the first `count` are of this line
  std::size_t count = 0;
  std::string timestamp;
  bool document = false;  // has more than numbers: read it as a document

  // Whether `line` is an object.
  bool scan(std::string_view line) {
    count = 0;
    depth_ = 0;
    document = false;
    timestamp.clear();
    return read_json_events(line, *this) && object_;
  }
  [[nodiscard]] const double* find(std::string_view key) const {
    for (std::size_t i = 0; i < count; ++i) {
      if (values[i].key == key) return &values[i].value;
    }
    return nullptr;
  }

  bool null() override { return number(std::nan("")); }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool string(string_t& text) override {
    if (depth_ == 1 && key_ == "timestamp")
      timestamp = text;
    else
      document = true;
    return true;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override {
    if (depth_++ == 0)
      object_ = true;
    else
      document = true;
    return true;
  }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override {
    if (depth_++ == 0) object_ = false;
    document = true;
    return true;
  }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    if (depth_ == 1) key_.swap(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool leave() {
    --depth_;
    return true;
  }
  bool number(double value) {
    if (depth_ != 1) return true;
    if (count == values.size()) values.emplace_back();
    values[count].key = key_;
    values[count++].value = value;
    return true;
  }

  std::string key_;
  int depth_ = 0;
  bool object_ = false;
};

// Parts of a step that the verdict adds up, by the keys of metrics.jsonl.
struct TotalsKey {
  std::string_view key;
  double StepTotals::*sum;
};
const std::array totals_keys = {
    TotalsKey{"step_ms", &StepTotals::step_ms},
    TotalsKey{"data_wait_ms", &StepTotals::data_wait_ms},
    TotalsKey{"exposed_comm_ms", &StepTotals::exposed_comm_ms},
    TotalsKey{"straggler_ms", &StepTotals::straggler_ms},
    TotalsKey{"bubble_ms", &StepTotals::bubble_ms},
    TotalsKey{"other_ms", &StepTotals::other_ms},
    TotalsKey{"core_wait_ms", &StepTotals::core_wait_ms},
    TotalsKey{"reduce_ms", &StepTotals::reduce_ms},
    TotalsKey{"reduce_wait_ms", &StepTotals::reduce_wait_ms},
};

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
    // Lines are written later than what they report: of a short run the clock saw less.
    history_.running_seconds = std::max(
        history_.running_seconds, 1e-3 * history_.totals.step_ms + history_.evaluation_seconds);
    return std::move(history_);
  }

 private:
  // False where the line is broken.
  bool take(std::string_view line) {
    if (!scanner_.scan(line)) return false;
    const double* const step = scanner_.find("step");
    if (step == nullptr || !(*step >= 0 && *step < largest_step)) return false;
    step_ = static_cast<std::int64_t>(*step);
    if (scanner_.find("loss") != nullptr) {
      take_step();
    } else if (scanner_.find("validation_loss") != nullptr) {
      take_evaluation(line);
    } else if (scanner_.document) {
      take_event(json_or_discarded(line));
    } else {
      ++history_.of_no_kind;
    }
    return true;
  }

  [[nodiscard]] double number(std::string_view key) const {
    const double* const value = scanner_.find(key);
    return value != nullptr && std::isfinite(*value) ? *value : 0.0;
  }

  // Moves the clock on to this line, which reports `work` seconds; returns the seconds between it
  // and the line before that were neither work nor a pause.
  double pass_time(double work) {
    constexpr double patience_seconds = 30, patience_times = 20;
    const auto now = seconds_of(scanner_.timestamp);
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
        // A line may be written late, and the next one soon behind it: what the one lacks the other
        // has.
        const double rest = std::max(passed, 0.0) - work + behind;
        behind_ = std::min(rest, 0.0);
        between = std::max(rest, 0.0);
      }
      // A clock that was set back goes on from there.
      history_.last_time = *now;
    }
    return between;
  }

  // Of the starts that no line stands behind yet.
  [[nodiscard]] bool started_before(double time) {
    while (next_start_ < starts_.size() && starts_[next_start_].time <= history_.last_time)
      ++next_start_;
    return next_start_ < starts_.size() && starts_[next_start_].time <= time;
  }

  // The seconds, `most` at most, that these had lost.
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

  // Of a clock that is set forward and back, or of lines of two hosts by turns.
  static bool same_jump(double one, double other) {
    return one > 1 && other > 1 && std::abs(one - other) <= std::max(1.0, 0.1 * one);
  }

  // It was the clock's.
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
                                            scanner_.timestamp.substr(0, 40))});
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
    for (std::size_t i = 0; i < scanner_.count; ++i) {
      const auto& [key, value] = scanner_.values[i];
      if (key == "step") continue;
      const bool is_finite = std::isfinite(value);
      if (!is_finite && (key == "loss" || key == "grad_norm")) finite = false;
      if (is_finite) all.buckets.add(bucket, column_of(i, key), value);
    }
    all.buckets.add(bucket, column_of(scanner_.count, elapsed_column), all.running_seconds);
    all.buckets.add(bucket, column_of(scanner_.count + 1, between_column), 1e3 * between);
    if (const double whole = all.whole_seconds(); whole > 0) {
      const double useful = 1e-3 * (all.totals.step_ms + milliseconds) - all.repeated_seconds;
      all.buckets.add(bucket, column_of(scanner_.count + 2, goodput_column),
                      std::clamp(useful / whole, 0.0, 1.0));
    }
    if (!finite) all.non_finite.add(step_);
    all.divergence.add(step_, *scanner_.find("loss"));
    sum_up();
  }

  // The keys of a step's line seldom change: the column of the i-th of the line before is tried.
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
    for (const TotalsKey& key : totals_keys)
      totals.*key.sum += number(key.key);
    const double items_before = item_sum_;
    for (const std::string_view items : {"tokens", "images"}) {
      const double* const rate = scanner_.find(std::string(items) + "_per_s");
      if (rate == nullptr) continue;
      all.items = items;
      item_sum_ += 1e-3 * number("step_ms") * (std::isfinite(*rate) ? *rate : 0.0);
      totals.items = static_cast<std::int64_t>(std::min(item_sum_, 9e18));
      const double* const seen = scanner_.find(std::string(items) + "_seen");
      if (seen != nullptr && std::isfinite(*seen)) all.items_seen = *seen;
    }
    if (const double* const joules = scanner_.find("joules")) {
      totals.joules += number("joules");
      joule_item_sum_ += std::isfinite(*joules) ? item_sum_ - items_before : 0.0;
      totals.joule_items = static_cast<std::int64_t>(std::min(joule_item_sum_, 9e18));
    }
    const double loss = *scanner_.find("loss");
    if (std::isfinite(loss)) {
      totals.loss += loss;
      if (!all.first_loss) all.first_loss = loss;
      if (!all.lowest_loss || loss < *all.lowest_loss) {
        all.lowest_loss = loss;
        all.lowest_loss_step = step_;
      }
    }
    all.last_loss = loss;
    const double* const rate = scanner_.find("lr");
    if (rate != nullptr) all.last_lr = *rate;
  }

  void take_evaluation(std::string_view line) {
    constexpr std::size_t most = 4000;
    MetricsHistory& all = history_;
    const double seconds = 1e-3 * std::max(number("evaluation_ms"), 0.0);
    static_cast<void>(pass_time(seconds));
    all.evaluation_seconds += seconds;
    Evaluation one{.step = step_,
                   .loss = *scanner_.find("validation_loss"),
                   .seconds = seconds,
                   .elapsed = all.running_seconds};
    const double* const accuracy = scanner_.find("accuracy");
    if (accuracy != nullptr && std::isfinite(*accuracy)) one.accuracy = *accuracy;
    if (scanner_.document) {
      const MetricsJson text = json_or_discarded(line);
      const auto sources = text.find("validation");
      if (sources != text.end() && sources->is_object()) {
        for (const auto& [name, source] : sources->items()) {
          if (source.is_object() && source.contains("loss") && source["loss"].is_number())
            one.sources.emplace_back(name, source["loss"].get<double>());
        }
      }
    }
    // Every second of those so far goes when there are too many; the newest is always there.
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

  void take_event(const MetricsJson& line) {
    const auto text_of = [&](const char* key) {
      const auto found = line.find(key);
      if (found == line.end()) return std::string();
      return found->is_string()
                 ? found->get<std::string>()
                 : found->dump(-1, ' ', false, MetricsJson::error_handler_t::replace);
    };
    if (line.contains("skipped")) {
      history_.skipped.add(
          {step_, fmt::format("{}, {} deviations above the mean, samples {}", text_of("skipped"),
                              text_of("deviations"), text_of("samples").substr(0, 400))});
    } else if (line.contains("checkpoint_failed")) {
      history_.failed_saves.add({step_, text_of("checkpoint_failed").substr(0, 400)});
    } else if (line.contains("warning")) {
      history_.warnings.add(
          {step_, fmt::format("{}: {}", text_of("warning"), text_of("text")).substr(0, 400)});
    } else {
      ++history_.of_no_kind;
    }
  }

  LineReader reader_;
  std::vector<RunStart> starts_;  // by time
  std::size_t next_start_ = 0;
  LineScanner scanner_;
  MetricsHistory history_;
  std::vector<std::size_t> hints_;
  std::int64_t step_ = 0, pass_ = 0, every_ = 1;
  double item_sum_ = 0;
  double joule_item_sum_ = 0;  // of the steps whose energy is known
  double behind_ = 0;  // seconds, at most 0, that the lines so far are behind what they report
  double set_back_ = 0, last_pause_ = 0;  // seconds, of the clock's last step back, and of that
  bool provisional_ = false;              // the last evaluation makes way for the next
};

}  // namespace

std::optional<double> seconds_of(std::string_view timestamp) {
  constexpr std::string_view shape = "dddd-dd-ddTdd:dd:dd";
  if (timestamp.size() < shape.size()) return {};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool digit = timestamp[i] >= '0' && timestamp[i] <= '9';
    if (shape[i] == 'd' ? !digit : timestamp[i] != shape[i]) return {};
  }
  const auto number = [&](std::size_t at, std::size_t digits) {
    int value = 0;
    std::from_chars(timestamp.data() + at, timestamp.data() + at + digits, value);
    return value;
  };
  const std::chrono::year_month_day day(std::chrono::year(number(0, 4)),
                                        std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                        std::chrono::day(static_cast<unsigned>(number(8, 2))));
  if (!day.ok()) return {};
  double seconds =
      86400.0 * static_cast<double>(std::chrono::sys_days(day).time_since_epoch().count()) +
      3600.0 * number(11, 2) + 60.0 * number(14, 2) + number(17, 2);
  if (timestamp.size() > shape.size() && timestamp[shape.size()] == '.') {
    double part = 0.1;
    for (std::size_t i = shape.size() + 1; i < timestamp.size(); ++i, part /= 10) {
      if (timestamp[i] < '0' || timestamp[i] > '9') break;
      seconds += part * (timestamp[i] - '0');
    }
  }
  return seconds;
}

MetricsHistory read_metrics(const std::string& path, std::span<const RunStart> starts) {
  return MetricsReading(path, starts).run();
}

}  // namespace trireme::report
