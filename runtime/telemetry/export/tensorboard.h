// SPDX-License-Identifier: Apache-2.0
// A run in TensorBoard: every metric of every step and evaluation, the config and problems as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/telemetry/export/event_file.h"
#include "runtime/telemetry/export/export_facts.h"

namespace trireme {

class TensorBoard final : public Exporter {
 public:
  explicit TensorBoard(const ExportFacts& facts);

  void step(const StepMetrics& metrics) override;
  void evaluation(const EvaluationMetrics& metrics) override;
  void skipped(const SkippedBatch& skipped) override;
  void failed_save(const FailedSave& failed) override;
  void histograms(const StepHistograms& histograms) override;
  void samples(const ModelSamples& samples) override;
  void flush() override;
  void finish(RunEnd end) override;

 private:
  void add_now(const SummaryEvent& event);

  EventFile file_;
  std::vector<SummaryTag> step_tags_;        // by row of the table
  std::vector<SummaryTag> evaluation_tags_;  // the same
};

// A PNG file of bytes (height, width, channels), 1 or 3 channels. Raises ExitCode::internal.
[[nodiscard]] std::string png_of(std::span<const std::byte> pixels, std::int64_t height,
                                 std::int64_t width, std::int64_t channels);

}  // namespace trireme
