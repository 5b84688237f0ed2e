// SPDX-License-Identifier: Apache-2.0
// A run for Prometheus: metrics.prom, which the textfile collector of node_exporter reads, and an
// HTTP endpoint.
#pragma once

#include <memory>

#include "runtime/base/output_directory.h"
#include "runtime/telemetry/export/export_facts.h"
#include "runtime/telemetry/export/metrics_server.h"

namespace trireme {

class PrometheusState;

// metrics.prom, replaced by renaming every few seconds: a reader sees one state or another.
class PrometheusFile final : public Exporter {
 public:
  explicit PrometheusFile(const ExportFacts& facts);
  ~PrometheusFile() override;
  PrometheusFile(const PrometheusFile&) = delete;
  PrometheusFile& operator=(const PrometheusFile&) = delete;

  void step(const StepMetrics& metrics) override;
  void evaluation(const EvaluationMetrics& metrics) override;
  void failed_save(const FailedSave& failed) override;
  void flush() override;
  void finish(RunEnd end) override;

 private:
  OutputDirectory directory_;
  std::unique_ptr<PrometheusState> state_;
};

// http://HOST:PORT/metrics on all interfaces, served by one thread.
class PrometheusServer final : public Exporter {
 public:
  // Raises ExitCode::config if the port is unavailable.
  PrometheusServer(const std::string& address, int port, const ExportFacts& facts);
  ~PrometheusServer() override;
  PrometheusServer(const PrometheusServer&) = delete;
  PrometheusServer& operator=(const PrometheusServer&) = delete;

  void step(const StepMetrics& metrics) override;
  void evaluation(const EvaluationMetrics& metrics) override;
  void failed_save(const FailedSave& failed) override;
  void flush() override {}
  void finish(RunEnd end) override;

 private:
  std::unique_ptr<PrometheusState> state_;
  MetricsServer server_;  // ends before its data
};

}  // namespace trireme
