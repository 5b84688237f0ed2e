// SPDX-License-Identifier: Apache-2.0
// All files for other tools that a run writes, by the keys of its `telemetry` section. None is
// worth a training run: one that cannot be written any more is given up with a warning, and the
// run goes on without it. What cannot even be begun ends the run at its start.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "runtime/telemetry/export/export_facts.h"
#include "runtime/telemetry/export/exporter.h"

namespace trireme {

struct ExportChoice {
  bool tensorboard = false, prometheus = false;
  int prometheus_port = 0;  // 0 = none
};

// When to write out: files are read while a run writes them, but a write for each step would cost
// more than all the rest of it.
class FlushTimer {
 public:
  explicit FlushTimer(std::chrono::milliseconds every) : every_(every) {}
  // True once in `every`, at the first call too.
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
  // Raises ExitCode::config, with the key, where files cannot be made.
  Exporters(const ExportChoice& choice, const ExportFacts& facts);
  // Tells them that the run failed, unless finish() was called.
  ~Exporters() override;
  Exporters(const Exporters&) = delete;
  Exporters& operator=(const Exporters&) = delete;

  void step(const StepMetrics& metrics) override;
  void evaluation(const EvaluationMetrics& metrics) override;
  void skipped(const SkippedBatch& skipped) override;
  void failed_save(const FailedSave& failed) override;
  void histograms(const StepHistograms& histograms) override;
  void samples(const ModelSamples& samples) override;
  // Before a checkpoint of the step that was reported last: what it goes on from is in the files.
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
