// SPDX-License-Identifier: Apache-2.0
// All files for other tools that a run writes, by the keys of its `telemetry` section. An exporter
// that fails to write is dropped with a warning, and the run continues. One that cannot be created
// ends the run at its start.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "runtime/telemetry/export/export_facts.h"

namespace trireme {

struct ExportChoice {
  bool tensorboard = false, prometheus = false;
  int prometheus_port = 0;  // 0 = none
  std::string prometheus_address{};
};

// When to flush: the files have live readers, but a write per step would cost more than the rest of
// exporting.
class FlushTimer {
 public:
  explicit FlushTimer(std::chrono::milliseconds every) : every_(every) {}
  // True once per `every`, including the first call.
  [[nodiscard]] bool due() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return false;
    next_ = now + every_;
    return true;
  }

 private:
  std::chrono::milliseconds every_;
  std::chrono::steady_clock::time_point next_{};
};

class Exporters final : public MetricsSink {
 public:
  // Raises ExitCode::config, with the key, if files cannot be created.
  Exporters(const ExportChoice& choice, const ExportFacts& facts);
  // Finishes with RunEnd::failed unless finish() was called.
  ~Exporters() override;
  Exporters(const Exporters&) = delete;
  Exporters& operator=(const Exporters&) = delete;

  void step(const StepMetrics& metrics) override;
  void evaluation(const EvaluationMetrics& metrics) override;
  void skipped(const SkippedBatch& skipped) override;
  void failed_save(const FailedSave& failed) override;
  void histograms(const StepHistograms& histograms) override;
  void samples(const ModelSamples& samples) override;
  // Call before a checkpoint of the last reported step, so that the files hold all steps up to it.
  void flush();
  void finish(RunEnd end);

 private:
  struct Entry {
    std::string key;  // "telemetry.tensorboard"
    std::unique_ptr<Exporter> exporter;
  };
  template <typename Made>
  void add(bool wanted, const std::string& key, const ExportFacts& facts);
  template <typename Call>
  void each(Call call);

  std::vector<Entry> entries_;
  FlushTimer timer_;
};

}  // namespace trireme
