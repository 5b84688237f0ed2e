// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/export/mlflow_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/base/atomic_file.h"
#include "runtime/telemetry/export/exported_names.h"
#include "runtime/telemetry/export/offline_runs.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Of mlflow.entities: RunStatus and SourceType.
constexpr int status_running = 1, status_finished = 3, status_failed = 4, status_killed = 5,
              source_local = 4;
// What its client takes of a param; longer ones end the import.
constexpr std::size_t longest_param = 6000;

std::int64_t milliseconds_of(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

// Text in quotes is YAML as it is JSON.
std::string in_quotes(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string file_url(const std::string& path) {
  return in_quotes("file://" + fs::absolute(path).lexically_normal().string());
}

// MLflow takes letters, digits and a few signs in names.
std::string allowed_name(std::string name) {
  for (char& letter : name)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0 && letter != '-') letter = '_';
  return name;
}

// Bytes of the whole lines whose step is at most `done`.
std::uint64_t bytes_up_to(const std::string& path, std::int64_t done) {
  std::ifstream file(path);
  std::uint64_t bytes = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    std::int64_t step = 0;
    const char* const end = line.data() + line.size();
    const auto [rest, error] = std::from_chars(line.data() + line.rfind(' ') + 1, end, step);
    if (error != std::errc() || rest != end || step > done) break;
    bytes += line.size() + 1;
  }
  return bytes;
}

// Not durable at once, as an fsync each of two hundred small files would be felt at a start.
void put_file(const OutputDirectory& directory, const std::string& name, std::string_view text) {
  write_fully(directory.create(name, O_WRONLY), directory.path_of(name),
              std::as_bytes(std::span(text)), ExitCode::config);
}

OutputDirectory open_directory(const ExportFacts& facts) {
  const OutputDirectory store =
      OutputDirectory(facts.directory, ExitCode::config).subdirectory("mlruns");
  const OutputDirectory experiment = store.subdirectory(mlflow_experiment);
  const std::string meta = experiment.path_of("meta.yaml");
  if (std::error_code error; !fs::exists(meta, error)) {
    const std::int64_t now = milliseconds_of(facts.start);
    write_file(meta,
               fmt::format("artifact_location: {}\ncreation_time: {}\nexperiment_id: '{}'\n"
                           "last_update_time: {}\nlifecycle_stage: active\nname: trireme\n",
                           file_url(experiment.path()), now, mlflow_experiment, now),
               ExitCode::config);
  }
  std::string run;
  if (facts.done) run = offline_run_in(experiment.path(), is_mlflow_run);
  return experiment.subdirectory(run.empty() ? new_run_id() : run);
}

}  // namespace

MlflowRun::MlflowRun(const ExportFacts& facts)
    : name_(facts.name), start_(facts.start), directory_(open_directory(facts)) {
  id_ = fs::path(directory_.path()).filename();
  for (const StepMetric& metric : step_metrics())
    step_names_.push_back(grouped_name(metric, facts.items));
  write_facts(facts);
  write_meta(status_running, {});
  if (!facts.done) return;
  const fs::path metrics = directory_.subdirectory("metrics").path();
  for (const auto& entry : fs::recursive_directory_iterator(metrics)) {
    if (!entry.is_regular_file()) continue;
    AppendFile& file = file_of(fs::relative(entry.path(), metrics));
    file.truncate(bytes_up_to(file.path(), *facts.done));
  }
}

void MlflowRun::write_meta(int status,
                           std::optional<std::chrono::system_clock::time_point> end) const {
  const char* const user = std::getenv("USER");
  write_file(directory_.path_of("meta.yaml"),
             fmt::format("artifact_uri: {}\nend_time: {}\nentry_point_name: ''\n"
                         "experiment_id: '{}'\nlifecycle_stage: active\nrun_id: {}\nrun_name: {}\n"
                         "run_uuid: {}\nsource_name: ''\nsource_type: {}\nsource_version: ''\n"
                         "start_time: {}\nstatus: {}\ntags: []\nuser_id: {}\n",
                         file_url(directory_.path_of("artifacts")),
                         end ? std::to_string(milliseconds_of(*end)) : "null", mlflow_experiment,
                         id_, in_quotes(name_), id_, source_local, milliseconds_of(start_), status,
                         in_quotes(user == nullptr ? "" : user)),
             ExitCode::internal);
}

void MlflowRun::write_facts(const ExportFacts& facts) const {
  const OutputDirectory params = directory_.subdirectory("params"),
                        tags = directory_.subdirectory("tags"),
                        artifacts = directory_.subdirectory("artifacts");
  for (const auto& [key, value] : facts.keys)
    put_file(params, key, value.substr(0, longest_param));
  put_file(tags, "mlflow.runName", facts.name);
  put_file(tags, "mlflow.source.name", facts.command_line);
  put_file(tags, "mlflow.source.type", "LOCAL");
  put_file(artifacts, "config.yaml", facts.config);
}

AppendFile& MlflowRun::file_of(const std::string& name) {
  const auto found = files_.find(name);
  if (found != files_.end()) return found->second;
  OutputDirectory folder = directory_.subdirectory("metrics");
  const fs::path path(name);
  for (const fs::path& part : path.parent_path())
    folder = folder.subdirectory(part);
  return files_.emplace(name, AppendFile(folder, path.filename())).first->second;
}

void MlflowRun::put(const std::string& name, double value, std::int64_t step,
                    std::chrono::system_clock::time_point time) {
  file_of(name).add(fmt::format("{} {} {}\n", milliseconds_of(time), value, step));
}

void MlflowRun::flush() {
  for (auto& [name, file] : files_)
    file.flush();
}

void MlflowRun::step(const StepMetrics& metrics) {
  for (std::size_t row = 0; row < step_names_.size(); ++row)
    if (const auto value = step_metrics()[row].value(metrics))
      put(step_names_[row], *value, metrics.step, metrics.time);
}

void MlflowRun::evaluation(const EvaluationMetrics& metrics) {
  for (const EvaluationMetric& metric : evaluation_metrics())
    if (const auto value = metric.value(metrics))
      put(grouped_name(metric), *value, metrics.step, metrics.time);
  for (const SourceValue& of : values_of_sources(metrics))
    put(grouped_name(*of.metric, allowed_name(of.source)), of.value, metrics.step, metrics.time);
  flush();
}

void MlflowRun::finish(RunEnd end) {
  flush();
  const int status = end == RunEnd::done      ? status_finished
                     : end == RunEnd::stopped ? status_killed
                                              : status_failed;
  write_meta(status, std::chrono::system_clock::now());
}

}  // namespace trireme
