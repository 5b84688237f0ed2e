// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/export/exporters.h"

#include "runtime/base/log.h"
#include "runtime/telemetry/export/tensorboard.h"

namespace trireme {

template <typename Made>
void Exporters::add(const std::string& key, const ExportFacts& facts) {
  try {
    entries_.push_back({key, std::make_unique<Made>(facts)});
  } catch (const Error& error) {
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
    } catch (const Error& error) {
      log::get("telemetry")
          .warn("{}: {}; the run goes on and writes no more of it", entry.key, error.what());
      return true;
    }
  });
}

Exporters::Exporters(const ExportChoice& choice, const ExportFacts& facts) {
  if (choice.tensorboard) add<TensorBoard>("telemetry.tensorboard", facts);
}

Exporters::~Exporters() {
  finish(RunEnd::failed);
}

void Exporters::step(const StepMetrics& metrics) {
  each([&](Exporter& exporter) { exporter.step(metrics); });
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

void Exporters::finish(RunEnd end) {
  each([&](Exporter& exporter) { exporter.finish(end); });
  entries_.clear();
}

}  // namespace trireme
