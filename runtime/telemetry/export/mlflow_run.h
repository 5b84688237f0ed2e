// SPDX-License-Identifier: Apache-2.0
// A run in MLflow's file store: mlruns/EXPERIMENT/RUN/ with meta.yaml, params/KEY, tags/KEY and
// metrics/NAME of lines "milliseconds value step", which `mlflow migrate-filestore` takes into a
// data base. A run that goes on goes on in the same files.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/telemetry/export/append_file.h"
#include "runtime/telemetry/export/export_facts.h"
#include "runtime/telemetry/export/exporter.h"

namespace trireme {

class MlflowRun final : public Exporter {
 public:
  explicit MlflowRun(const ExportFacts& facts);

  void step(const StepMetrics& metrics) override;
  void evaluation(const EvaluationMetrics& metrics) override;
  void flush() override;
  void finish(RunEnd end) override;

 private:
  void put(const std::string& name, double value, std::int64_t step,
           std::chrono::system_clock::time_point time);
  AppendFile& file_of(const std::string& name);
  void write_meta(int status, std::optional<std::chrono::system_clock::time_point> end) const;
  void write_facts(const ExportFacts& facts) const;

  std::string experiment_, id_, name_;
  std::chrono::system_clock::time_point start_;
  OutputDirectory directory_;            // of the run
  std::vector<std::string> step_names_;  // by row of the table
  std::map<std::string, AppendFile> files_;
};

}  // namespace trireme
