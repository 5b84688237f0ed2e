// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/json.h"
#include "runtime/telemetry/metric_table.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

// Rounds milliseconds to the clock's microseconds.
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
  json["timestamp"] = timestamp_text(time);
  if (!finite) json["non_finite"] = true;
  // Paths may be invalid UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

bool is_up_to(std::int64_t done, std::string_view line) {
  constexpr std::string_view head = "{\"step\":";
  std::int64_t step = 0;
  if (!line.starts_with(head)) return false;
  const auto [rest, error] =
      std::from_chars(line.data() + head.size(), line.data() + line.size(), step);
  return error == std::errc() && step <= done;
}

std::optional<KeepLine> lines_up_to(std::optional<std::int64_t> done) {
  if (!done) return std::nullopt;
  return [last = *done](std::string_view line) { return is_up_to(last, line); };
}

void count_line(LostSteps& lost, std::string_view line) {
  const Json json = json_or_discarded<Json>(line);
  if (!json.is_object()) return;
  if (json.contains("loss")) ++lost.steps;
  for (const char* const key : {"step_ms", "evaluation_ms"})
    if (const auto found = json.find(key); found != json.end() && found->is_number())
      lost.seconds += 1e-3 * found->get<double>();
}

}  // namespace

std::string_view name_of(ItemKind kind) {
  constexpr std::array<std::string_view, 3> names{"tokens", "images", "samples"};
  return names[static_cast<std::size_t>(kind)];
}

std::string format_json(const StepMetrics& metrics, ItemKind kind) {
  Json json = {{"step", metrics.step}};
  for (const StepMetric& metric : step_metrics())
    if (const auto value = metric.value(metrics))
      json[name_for(metric.name, kind)] = rounded(*value, metric.digits);
  for (const ExpertLoad& load : metrics.expert_loads)
    json["experts"][load.layer] = {{"max_over_mean", load.max_over_mean},
                                   {"dead", load.dead},
                                   {"entropy", load.entropy},
                                   {"tokens", static_cast<std::int64_t>(load.tokens)}};
  for (const GpuState& gpu : metrics.gpus) {
    Json& lists = json["gpus"];
    for (const auto& [name, value] : gpu_numbers) {
      const double number = gpu.*value;
      lists[std::string(name)].push_back(std::isfinite(number) ? Json(in_thousandths(number))
                                                               : Json());
    }
    lists["slowdowns"].push_back(slowdown_text(gpu.slowdowns));
  }
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
    for (const Quality& quality : qualities)
      if (const auto value = source.quality.*quality.value) part[std::string(quality.key)] = *value;
  }
  json.update(times);
  return line_of(std::move(json), metrics.time);
}

std::string quality_number(const Quality& quality, double value) {
  return quality.is_share ? fmt::format("{:.2f} %", 100 * value) : fmt::format("{:.4f}", value);
}

std::string quality_text(const Quality& quality, double value) {
  return fmt::format("{} {}", quality.key, quality_number(quality, value));
}

std::string qualities_text(const Qualities& values, std::string_view before) {
  std::string text;
  for (const Quality& quality : qualities)
    if (const auto value = values.*quality.value)
      text += fmt::format("{}{}", before, quality_text(quality, *value));
  return text;
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

std::string format_json(const RunWarning& warning) {
  return line_of({{"step", warning.step}, {"warning", warning.kind}, {"text", warning.text}},
                 warning.time);
}

template <class Report>
void MetricsSinks::pass_on(void (MetricsSink::*call)(const Report&), const Report& report) {
  if (check_) check_();
  for (MetricsSink* const sink : sinks_)
    (sink->*call)(report);
}

void MetricsSinks::step(const StepMetrics& metrics) {
  pass_on(&MetricsSink::step, metrics);
}

void MetricsSinks::evaluation(const EvaluationMetrics& metrics) {
  pass_on(&MetricsSink::evaluation, metrics);
}

void MetricsSinks::skipped(const SkippedBatch& skipped) {
  pass_on(&MetricsSink::skipped, skipped);
}

void MetricsSinks::failed_save(const FailedSave& failed) {
  pass_on(&MetricsSink::failed_save, failed);
}

void MetricsSinks::saved(const SavedCheckpoint& saved) {
  pass_on(&MetricsSink::saved, saved);
}

void MetricsSinks::warning(const RunWarning& warning) {
  pass_on(&MetricsSink::warning, warning);
}

void MetricsSinks::histograms(const StepHistograms& histograms) {
  pass_on(&MetricsSink::histograms, histograms);
}

void MetricsSinks::samples(const ModelSamples& samples) {
  pass_on(&MetricsSink::samples, samples);
}

MetricsLog::MetricsLog(std::string path, ItemKind kind, std::optional<std::int64_t> done)
    : kind_(kind), file_(std::move(path), lines_up_to(done), [this](std::string_view line) {
        count_line(lost_, line);
      }) {}

void MetricsLog::step(const StepMetrics& metrics) {
  file_.append(format_json(metrics, kind_));
}

void MetricsLog::evaluation(const EvaluationMetrics& metrics) {
  file_.append(format_json(metrics));
}

void MetricsLog::skipped(const SkippedBatch& skipped) {
  file_.append(format_json(skipped));
}

void MetricsLog::failed_save(const FailedSave& failed) {
  file_.append(format_json(failed));
}

void MetricsLog::warning(const RunWarning& warning) {
  file_.append(format_json(warning));
}

}  // namespace trireme
