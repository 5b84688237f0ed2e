// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/export/wandb_run.h"

#include <fmt/chrono.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/base/host_name.h"
#include "runtime/base/json.h"
#include "runtime/telemetry/export/exported_names.h"
#include "runtime/telemetry/export/offline_runs.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string json_of(double value) {
  // As the client of W&B writes them: JSON has no such numbers.
  if (std::isnan(value)) return R"("NaN")";
  if (std::isinf(value)) return value > 0 ? R"("Infinity")" : R"("-Infinity")";
  return Json(value).dump();
}

// {"train": {"steps": 1000}} from "train.steps", "1000"; numbers, lists and booleans as such.
Json config_json(const ExportFacts& facts) {
  Json config = Json::object();
  for (const auto& [key, text] : facts.keys) {
    Json value = json_or_discarded(text);
    if (value.is_discarded()) value = text;
    const std::size_t dot = key.find('.');
    if (dot == std::string::npos) {
      config[key] = value;
    } else {
      config[key.substr(0, dot)][key.substr(dot + 1)] = value;
    }
  }
  return config;
}

void put_item(ProtobufWriter& to, int field, const std::string& key, const std::string& json) {
  to.message(field, [&] {
    to.text(wandb::item_key, key);
    to.text(wandb::item_json, json);
  });
}

ProtobufWriter run_record(const ExportFacts& facts, const std::string& id) {
  const auto since = facts.start.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
  const Json config = config_json(facts);
  ProtobufWriter record;
  record.message(wandb::record_run, [&] {
    record.text(wandb::run_id, id);
    record.text(wandb::run_project, "trireme");
    record.message(wandb::run_config, [&] {
      for (const auto& [key, value] : config.items())
        put_item(record, wandb::config_update, key,
                 value.dump(-1, ' ', false, Json::error_handler_t::replace));
      put_item(record, wandb::config_update, "command_line", Json(facts.command_line).dump());
    });
    record.text(wandb::run_display_name, facts.name);
    record.text(wandb::run_host, host_name());
    record.message(wandb::run_start_time, [&] {
      record.integer(wandb::time_seconds, seconds.count());
      record.integer(wandb::time_nanos,
                     std::chrono::duration_cast<std::chrono::nanoseconds>(since - seconds).count());
    });
  });
  return record;
}

// "run-ID.wandb" in the run's directory under wandb/, which a start before this may have made.
WandbFile open_file(const ExportFacts& facts) {
  const OutputDirectory parent =
      OutputDirectory(facts.directory, ExitCode::config).subdirectory("wandb");
  const auto id_of = [](const std::string& name) { return name.substr(name.rfind('-') + 1); };
  std::string name;
  if (facts.done) name = offline_run_in(parent.path(), is_wandb_run);
  if (name.empty())
    name =
        fmt::format("offline-run-{:%Y%m%d_%H%M%S}-{}",
                    fmt::gmtime(std::chrono::system_clock::to_time_t(facts.start)), new_run_id());
  const OutputDirectory directory = parent.subdirectory(name);
  static_cast<void>(directory.subdirectory("files"));  // the client looks for these two
  static_cast<void>(directory.subdirectory("logs"));
  const std::string file = fmt::format("run-{}.wandb", id_of(name));
  // Marks of the client that it has sent all, and how far it came: what it sent may go.
  for (const char* const mark : {".synced", ".syncstate"})
    directory.remove(file + mark);
  WandbFile opened(directory, file, facts.done);
  if (opened.records() == 0) opened.add(run_record(facts, id_of(name)));
  opened.flush();
  return opened;
}

int exit_code_of(RunEnd end) {
  if (end == RunEnd::done) return 0;
  return static_cast<int>(end == RunEnd::stopped ? ExitCode::requeue : ExitCode::internal);
}

}  // namespace

WandbRun::WandbRun(const ExportFacts& facts) : start_(facts.start), file_(open_file(facts)) {
  for (const StepMetric& metric : step_metrics())
    step_keys_.push_back(grouped_name(metric, facts.items));
}

double WandbRun::runtime_at(std::chrono::system_clock::time_point time) const {
  return std::chrono::duration<double>(time - start_).count();
}

void WandbRun::put(const std::string& key, double value) {
  row_.emplace_back(key, json_of(value));
}

void WandbRun::begin_row(std::int64_t step, std::chrono::system_clock::time_point time) {
  if (step != row_step_) write_row();
  row_step_ = step;
  row_time_ = time;
}

void WandbRun::write_row() {
  if (row_.empty()) return;
  const auto seconds = std::chrono::duration<double>(row_time_.time_since_epoch()).count();
  row_.emplace_back("_step", std::to_string(row_step_));
  row_.emplace_back("_timestamp", Json(seconds).dump());
  row_.emplace_back("_runtime", Json(runtime_at(row_time_)).dump());
  ProtobufWriter record;
  record.message(wandb::record_history, [&] {
    record.message(wandb::history_step, [&] { record.integer(wandb::step_num, row_step_); });
    for (const auto& [key, json] : row_) {
      put_item(record, wandb::history_item, key, json);
      summary_[key] = json;
    }
  });
  file_.add(std::move(record));
  row_.clear();
}

void WandbRun::flush() {
  write_row();
  ProtobufWriter record;
  record.message(wandb::record_summary, [&] {
    for (const auto& [key, json] : summary_)
      put_item(record, wandb::summary_update, key, json);
  });
  if (!summary_.empty()) file_.add(std::move(record));
  file_.flush();
}

void WandbRun::step(const StepMetrics& metrics) {
  begin_row(metrics.step, metrics.time);
  for (std::size_t row = 0; row < step_keys_.size(); ++row)
    if (const auto value = step_metrics()[row].value(metrics)) put(step_keys_[row], *value);
}

void WandbRun::evaluation(const EvaluationMetrics& metrics) {
  begin_row(metrics.step, metrics.time);
  for (const EvaluationMetric& metric : evaluation_metrics())
    if (const auto value = metric.value(metrics)) put(grouped_name(metric), *value);
  for (const SourceValue& of : values_of_sources(metrics))
    put(grouped_name(*of.metric, of.source), of.value);
}

void WandbRun::finish(RunEnd end) {
  flush();
  if (end == RunEnd::stopped) {
    ProtobufWriter preempting;
    preempting.message(wandb::record_preempting, [] {});
    file_.add(std::move(preempting));
  }
  ProtobufWriter exit;
  exit.message(wandb::record_exit, [&] {
    exit.integer(wandb::exit_code, exit_code_of(end));
    exit.integer(wandb::exit_runtime,
                 static_cast<std::int64_t>(runtime_at(std::chrono::system_clock::now())));
  });
  file_.add(std::move(exit));
  ProtobufWriter final_record;
  final_record.message(wandb::record_final, [] {});
  file_.add(std::move(final_record));
  file_.flush();
}

}  // namespace trireme
