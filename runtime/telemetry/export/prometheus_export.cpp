// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/export/prometheus_export.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "runtime/telemetry/export/prometheus_families.h"

namespace trireme {
namespace {

constexpr const char* file_name = "metrics.prom";

// The library's own message does not say why a port is refused.
void require_free(int port) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return;
  fail(ExitCode::config,
       "telemetry.prometheus_port: {}: cannot be listened on: {}; choose another port, or 0 for "
       "none",
       port, std::strerror(errno));
}

}  // namespace

PrometheusFile::PrometheusFile(const ExportFacts& facts)
    : directory_(facts.directory, ExitCode::config),
      state_(std::make_unique<PrometheusState>(facts)) {
  flush();
}

PrometheusFile::~PrometheusFile() = default;

void PrometheusFile::flush() {
  const std::string text = prometheus::TextSerializer().Serialize(state_->families());
  const auto [name, file] = directory_.create_temporary(file_name);
  try {
    write_fully(file, directory_.path_of(name), std::as_bytes(std::span(text)), ExitCode::internal);
    directory_.rename(name, file_name);  // not synced: after a crash of the host it is of no use
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

struct PrometheusServer::Server {
  struct Collected final : prometheus::Collectable {
    explicit Collected(const ExportFacts& facts) : state(facts) {}
    [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override {
      return state.families();
    }
    PrometheusState state;
  };

  Server(int port, const ExportFacts& facts)
      : collected(std::make_shared<Collected>(facts)), exposer(std::to_string(port)) {
    exposer.RegisterCollectable(collected);
  }

  std::shared_ptr<Collected> collected;
  prometheus::Exposer exposer;
};

PrometheusServer::PrometheusServer(int port, const ExportFacts& facts) {
  require_free(port);
  try {
    server_ = std::make_unique<Server>(port, facts);
  } catch (const std::exception& error) {
    fail(ExitCode::config, "telemetry.prometheus_port: {}: cannot be listened on: {}", port,
         error.what());
  }
}

PrometheusServer::~PrometheusServer() = default;

void PrometheusServer::step(const StepMetrics& metrics) {
  server_->collected->state.step(metrics);
}

void PrometheusServer::evaluation(const EvaluationMetrics& metrics) {
  server_->collected->state.evaluation(metrics);
}

void PrometheusServer::failed_save(const FailedSave& /*failed*/) {
  server_->collected->state.failed_save();
}

void PrometheusServer::finish(RunEnd /*end*/) {
  server_->collected->state.end();
}

}  // namespace trireme
