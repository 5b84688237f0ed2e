// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/metrics.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/output_directory.h"
#include "runtime/telemetry/metric_table.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

// All that a clock call can tell of milliseconds.
double in_thousandths(double value) {
  return std::round(1e3 * value) / 1e3;
}

Json rounded(double value, MetricDigits digits) {
  if (digits == MetricDigits::whole) return static_cast<std::int64_t>(value);
  return digits == MetricDigits::exact ? value : in_thousandths(value);
}

bool all_finite(const Json& value) {
  if (value.is_structured()) return std::ranges::all_of(value, all_finite);
  return !value.is_number_float() || std::isfinite(value.get<double>());
}

std::string line_of(Json json, std::chrono::system_clock::time_point time) {
  const bool finite = all_finite(json);
  const auto part = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch());
  json["timestamp"] =
      fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(time)),
                  part.count() % 1000);
  if (!finite) json["non_finite"] = true;
  // Any bytes: a path need not be UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

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

std::string format_json(const StepMetrics& metrics, ItemKind kind) {
  Json json = {{"step", metrics.step}};
  for (const StepMetric& metric : step_metrics())
    if (const auto value = metric.value(metrics))
      json[name_for(metric.name, kind)] = rounded(*value, metric.digits);
  return line_of(std::move(json), metrics.time);
}

std::string format_json(const EvaluationMetrics& metrics) {
  Json json = {{"step", metrics.step}}, times = Json::object();
  for (const EvaluationMetric& metric : evaluation_metrics()) {
    Json& part = metric.unit == "ms" ? times : json;
    if (const auto value = metric.value(metrics))
      part[std::string(metric.name)] = rounded(*value, metric.digits);
  }
  for (const EvaluationMetrics::Source& source : metrics.sources) {
    Json& part = json["validation"][source.name];
    part["loss"] = source.loss;
    if (source.accuracy) part["accuracy"] = *source.accuracy;
  }
  json.update(times);
  return line_of(std::move(json), metrics.time);
}

std::string format_json(const SkippedBatch& skipped) {
  return line_of({{"step", skipped.step},
                  {"skipped", "spike"},
                  {"deviations", in_thousandths(skipped.zscore)},
                  {"samples", skipped.samples}},
                 skipped.time);
}

std::string format_json(const FailedSave& failed) {
  return line_of({{"step", failed.step},
                  {"checkpoint_failed", failed.problem},
                  {"failed_saves", failed.in_a_row}},
                 failed.time);
}

void MetricsSinks::step(const StepMetrics& metrics) {
  for (MetricsSink* const sink : sinks_)
    sink->step(metrics);
}

void MetricsSinks::evaluation(const EvaluationMetrics& metrics) {
  for (MetricsSink* const sink : sinks_)
    sink->evaluation(metrics);
}

void MetricsSinks::skipped(const SkippedBatch& skipped) {
  for (MetricsSink* const sink : sinks_)
    sink->skipped(skipped);
}

void MetricsSinks::failed_save(const FailedSave& failed) {
  for (MetricsSink* const sink : sinks_)
    sink->failed_save(failed);
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
  append(format_json(metrics, kind_));
}

void MetricsLog::evaluation(const EvaluationMetrics& metrics) {
  append(format_json(metrics));
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
