// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/export/prometheus_export.h"

#include <fcntl.h>
#include <prometheus/text_serializer.h>

#include <span>

#include "runtime/telemetry/export/prometheus_families.h"

namespace trireme {
namespace {

constexpr const char* file_name = "metrics.prom";

std::string text_of(const PrometheusState& state) {
  return prometheus::TextSerializer().Serialize(state.families());
}

}  // namespace

PrometheusFile::PrometheusFile(const ExportFacts& facts)
    : directory_(facts.directory, ExitCode::config),
      state_(std::make_unique<PrometheusState>(facts)) {
  flush();
}

PrometheusFile::~PrometheusFile() = default;

void PrometheusFile::flush() {
  const std::string text = text_of(*state_);
  const auto [name, file] = directory_.create_temporary(file_name);
  try {
    write_fully(file, directory_.path_of(name), std::as_bytes(std::span(text)), ExitCode::internal);
    directory_.rename(name, file_name);  // not synced: useless after a crash of the host
  } catch (const Error&) {
    directory_.remove(name);
    throw;
  }
}

void PrometheusFile::step(const StepMetrics& metrics) {
  state_->step(metrics);
}

void PrometheusFile::evaluation(const EvaluationMetrics& metrics) {
  state_->evaluation(metrics);
  flush();
}

void PrometheusFile::failed_save(const FailedSave& /*failed*/) {
  state_->failed_save();
  flush();
}

void PrometheusFile::finish(RunEnd /*end*/) {
  state_->end();
  flush();
}

PrometheusServer::PrometheusServer(const std::string& address, int port, const ExportFacts& facts)
    : state_(std::make_unique<PrometheusState>(facts)),
      server_(address, port, [this] { return text_of(*state_); }) {}

PrometheusServer::~PrometheusServer() = default;

void PrometheusServer::step(const StepMetrics& metrics) {
  state_->step(metrics);
}

void PrometheusServer::evaluation(const EvaluationMetrics& metrics) {
  state_->evaluation(metrics);
}

void PrometheusServer::failed_save(const FailedSave& /*failed*/) {
  state_->failed_save();
}

void PrometheusServer::finish(RunEnd /*end*/) {
  state_->end();
}

}  // namespace trireme
