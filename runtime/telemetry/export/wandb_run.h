// SPDX-License-Identifier: Apache-2.0
// A run as Weights & Biases records one offline: wandb/offline-run-TIME-ID/run-ID.wandb, which
// `wandb sync` sends from a machine with a network. A run that goes on goes on in the same file, so
// that one sync sends all of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/telemetry/export/export_facts.h"
#include "runtime/telemetry/export/exporter.h"
#include "runtime/telemetry/export/wandb_file.h"

namespace trireme {

class WandbRun final : public Exporter {
 public:
  explicit WandbRun(const ExportFacts& facts);

  void step(const StepMetrics& metrics) override;
  void evaluation(const EvaluationMetrics& metrics) override;
  void flush() override;
  // Without the row of the last step, which an evaluation may add to.
  void write_out() override { file_.flush(); }
  void finish(RunEnd end) override;

 private:
  // A value of the row that is being filled.
  void put(const std::string& key, double value);
  // W&B wants all values of a step in one row: it is written when the next step begins.
  void begin_row(std::int64_t step, std::chrono::system_clock::time_point time);
  void write_row();
  [[nodiscard]] double runtime_at(std::chrono::system_clock::time_point time) const;

  std::chrono::system_clock::time_point start_;
  WandbFile file_;
  std::vector<std::string> step_keys_;  // by row of the table
  std::int64_t row_step_ = -1;          // -1: none
  std::chrono::system_clock::time_point row_time_{};
  std::vector<std::pair<std::string, std::string>> row_;  // key, JSON
  std::map<std::string, std::string> summary_;            // the last value of each key
};

}  // namespace trireme
