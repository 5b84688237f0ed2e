// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/export/exporters.h"

#include "runtime/base/log.h"
#include "runtime/telemetry/export/prometheus_export.h"
#include "runtime/telemetry/export/tensorboard.h"

namespace trireme {

template <typename Made>
void Exporters::add(bool wanted, const std::string& key, const ExportFacts& facts) {
  if (!wanted) return;
  try {
    entries_.push_back({key, std::make_unique<Made>(facts)});
  } catch (const std::exception& error) {
    fail(ExitCode::config, "{}: {}; choose another run.directory, or set {} to false", key,
         error.what(), key);
  }
}

template <typename Call>
void Exporters::each(Call call) {
  std::erase_if(entries_, [&](Entry& entry) {
    try {
      call(*entry.exporter);
      return false;
    } catch (const std::exception& error) {
      log::get("telemetry").warn("{}: {}; the run continues without it", entry.key, error.what());
      return true;
    }
  });
}

Exporters::Exporters(const ExportChoice& choice, const ExportFacts& facts)
    : timer_(facts.flush_every) {
  add<TensorBoard>(choice.tensorboard, "telemetry.tensorboard", facts);
  add<PrometheusFile>(choice.prometheus, "telemetry.prometheus", facts);
  if (choice.prometheus_port > 0)
    entries_.push_back({"telemetry.prometheus_port",
                        std::make_unique<PrometheusServer>(choice.prometheus_address,
                                                           choice.prometheus_port, facts)});
}

Exporters::~Exporters() {
  finish(RunEnd::failed);
}

void Exporters::step(const StepMetrics& metrics) {
  const bool writes = timer_.due();
  each([&](Exporter& exporter) {
    exporter.step(metrics);
    if (writes) exporter.write_out();
  });
}

void Exporters::evaluation(const EvaluationMetrics& metrics) {
  each([&](Exporter& exporter) { exporter.evaluation(metrics); });
}

void Exporters::skipped(const SkippedBatch& skipped) {
  each([&](Exporter& exporter) { exporter.skipped(skipped); });
}

void Exporters::failed_save(const FailedSave& failed) {
  each([&](Exporter& exporter) { exporter.failed_save(failed); });
}

void Exporters::histograms(const StepHistograms& histograms) {
  each([&](Exporter& exporter) { exporter.histograms(histograms); });
}

void Exporters::samples(const ModelSamples& samples) {
  each([&](Exporter& exporter) { exporter.samples(samples); });
}

void Exporters::flush() {
  each([](Exporter& exporter) { exporter.flush(); });
}

void Exporters::finish(RunEnd end) {
  each([&](Exporter& exporter) { exporter.finish(end); });
  entries_.clear();
}

}  // namespace trireme
