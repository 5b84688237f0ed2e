// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/base/output_directory.h"
#include "runtime/base/text_builder.h"

namespace trireme {
namespace {

using Line = std::span<char, metrics_line_bytes>;

std::string_view utc_text(std::chrono::system_clock::time_point time, std::span<char, 32> to) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  const auto part = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch());
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 24> date{};
  const std::size_t length = std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  TextBuilder text(to);
  text.add("{}.{:03}Z", std::string_view(date.data(), length), part.count() % 1000);
  return text.view();
}

// Writes "key":value members one after another.
class JsonLine {
 public:
  explicit JsonLine(Line to) : text_(to) { text_.add("{{"); }

  void integer(std::string_view key, std::int64_t value) {
    text_.add("{}\"{}\":{}", separator(), key, value);
  }
  void number(std::string_view key, double value) {
    if (std::isfinite(value)) {
      text_.add("{}\"{}\":{}", separator(), key, value);
    } else {
      text_.add("{}\"{}\":null", separator(), key);
      finite_ = false;
    }
  }
  // Times: microseconds are all that a clock call can tell.
  void milliseconds(std::string_view key, double value) {
    text_.add("{}\"{}\":{:.3f}", separator(), key, value);
  }
  // A share of a whole, for people: six digits.
  void rounded(std::string_view key, double value) {
    text_.add("{}\"{}\":{:.6g}", separator(), key, value);
  }
  void timestamp(std::chrono::system_clock::time_point time) {
    std::array<char, 32> text;
    text_.add("{}\"timestamp\":\"{}\"", separator(), utc_text(time, text));
  }
  std::string_view finish() {
    text_.add("{}}}\n", finite_ ? "" : ",\"non_finite\":true");
    TRIREME_EXPECTS(!text_.cut(), "a metrics line passes {} bytes", metrics_line_bytes);
    return text_.view();
  }

 private:
  std::string_view separator() { return std::exchange(first_, false) ? "" : ","; }

  TextBuilder text_;
  bool first_ = true;
  bool finite_ = true;
};

// Bytes of the whole lines whose step is at most `done`.
off_t bytes_up_to(const std::string& path, std::int64_t done) {
  constexpr std::string_view head = "{\"step\":";
  std::ifstream file(path);
  off_t bytes = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    std::int64_t step = 0;
    if (!line.starts_with(head)) break;
    const auto [rest, error] =
        std::from_chars(line.data() + head.size(), line.data() + line.size(), step);
    if (error != std::errc() || step > done) break;
    bytes += static_cast<off_t>(line.size()) + 1;
  }
  return bytes;
}

}  // namespace

std::string_view name_of(ItemKind kind) {
  return kind == ItemKind::tokens ? "tokens" : "images";
}

std::string_view format_json(const StepMetrics& metrics, ItemKind kind, Line to) {
  JsonLine line(to);
  line.integer("step", metrics.step);
  line.number("loss", metrics.loss);
  line.number("lr", metrics.learning_rate);
  line.number("grad_norm", metrics.grad_norm);
  if (metrics.loss_scale) {
    line.number("loss_scale", *metrics.loss_scale);
    line.integer("skipped_steps", metrics.skipped_steps);
  }
  if (metrics.spikes) line.integer("spikes", *metrics.spikes);
  if (metrics.non_finite_steps > 0) line.integer("non_finite_steps", metrics.non_finite_steps);
  line.rounded("epoch", metrics.epoch);
  line.integer(kind == ItemKind::tokens ? "tokens_seen" : "images_seen", metrics.items_seen);
  const double seconds = metrics.step_ms / 1000;
  line.milliseconds(kind == ItemKind::tokens ? "tokens_per_s" : "images_per_s",
                    seconds > 0 ? static_cast<double>(metrics.items) / seconds : 0.0);
  line.milliseconds("step_ms", metrics.step_ms);
  line.milliseconds("forward_ms", metrics.forward_ms);
  line.milliseconds("backward_ms", metrics.backward_ms);
  line.milliseconds("optimizer_ms", metrics.optimizer_ms);
  line.milliseconds("data_wait_ms", metrics.data_wait_ms);
  line.milliseconds("exposed_comm_ms", metrics.exposed_comm_ms);
  line.milliseconds("straggler_ms", metrics.straggler_ms);
  line.milliseconds("bubble_ms", metrics.bubble_ms);
  line.milliseconds("other_ms", metrics.other_ms);
  line.milliseconds("core_wait_ms", metrics.core_wait_ms + metrics.core_straggler_ms);
  line.milliseconds("reduce_ms", metrics.reduce_ms);
  line.timestamp(metrics.time);
  return line.finish();
}

std::string_view format_json(const EvaluationMetrics& metrics, Line to) {
  JsonLine line(to);
  line.integer("step", metrics.step);
  line.number("validation_loss", metrics.validation_loss);
  if (metrics.accuracy) line.number("accuracy", *metrics.accuracy);
  line.milliseconds("evaluation_ms", metrics.evaluation_ms);
  line.timestamp(metrics.time);
  return line.finish();
}

std::string format_json(const SkippedBatch& skipped) {
  std::array<char, 32> time;
  return fmt::format(
      "{{\"step\":{},\"skipped\":\"spike\",\"deviations\":{:.3f},\"samples\":[{}],"
      "\"timestamp\":\"{}\"}}\n",
      skipped.step, skipped.deviations, fmt::join(skipped.samples, ","),
      utc_text(skipped.time, time));
}

std::string format_json(const FailedSave& failed) {
  std::array<char, 32> time;
  const nlohmann::json problem = failed.problem;  // any bytes: a path need not be UTF-8
  return fmt::format(
      "{{\"step\":{},\"checkpoint_failed\":{},\"failed_saves\":{},\"timestamp\":\"{}\"}}\n",
      failed.step, problem.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
      failed.in_a_row, utc_text(failed.time, time));
}

MetricsLog::MetricsLog(std::string path, ItemKind kind, std::optional<std::int64_t> done)
    : path_(std::move(path)), kind_(kind) {
  // O_EXCL: a second run that chose the same directory a moment later must not mix its lines in.
  const int exclusive = done ? 0 : O_EXCL;
  file_ =
      OutputDirectory(parent_directory(path_), ExitCode::internal)
          .open(std::filesystem::path(path_).filename(), O_WRONLY | O_CREAT | O_APPEND | exclusive);
  if (done && ::ftruncate(file_.get(), bytes_up_to(path_, *done)) != 0)
    system_failed("ftruncate", path_);
}

void MetricsLog::step(const StepMetrics& metrics) {
  std::array<char, metrics_line_bytes> text;
  append(format_json(metrics, kind_, text));
}

void MetricsLog::evaluation(const EvaluationMetrics& metrics) {
  std::array<char, metrics_line_bytes> text;
  append(format_json(metrics, text));
}

void MetricsLog::skipped(const SkippedBatch& skipped) {
  append(format_json(skipped));
}

void MetricsLog::failed_save(const FailedSave& failed) {
  append(format_json(failed));
}

void MetricsLog::append(std::string_view line) {
  if (failed_) return;
  ssize_t put = 0;
  do {
    put = ::write(file_.get(), line.data(), line.size());
  } while (put < 0 && errno == EINTR);
  if (put == static_cast<ssize_t>(line.size())) return;

  failed_ = true;
  // A short write means that the disk filled up within this line.
  const int reason = put < 0 ? errno : ENOSPC;
  const off_t end = ::lseek(file_.get(), 0, SEEK_END);
  const bool whole_lines_left =
      put <= 0 || (end >= put && ::ftruncate(file_.get(), end - put) == 0);
  fail(ExitCode::internal,
       "{}: cannot be written: {}; free space there or choose another run.directory{}", path_,
       std::strerror(reason), whole_lines_left ? "" : " (its last line is torn)");
}

}  // namespace trireme
