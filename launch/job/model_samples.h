// SPDX-License-Identifier: Apache-2.0
// The model's output on the first samples of its validation data (or training data, without
// validation) during training: greedy continuations of texts, or images with their predicted class.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "data/loader/batch_memory.h"
#include "launch/engine/session.h"
#include "launch/text/words.h"
#include "runtime/comm/host_stream.h"
#include "runtime/telemetry/snapshots.h"

namespace trireme {

class SamplePass {
 public:
  // All references must outlive this. Raises ExitCode::config if the model neither continues texts
  // nor classifies.
  SamplePass(Session& session, PipelineRunner& runner, const Dataset& data);

  // Rank 0 has the samples. All ranks compute the same passes: one for images, one per generated
  // token of texts. Between two steps. Collective; blocks the host.
  [[nodiscard]] ModelSamples run();

 private:
  void read_samples();
  void forward();
  // The most likely class per row of a micro-batch; for texts at position `at`. On every rank.
  [[nodiscard]] std::vector<std::int32_t> most_probable(std::int64_t at);
  void fetch_logits(std::int64_t at);
  [[nodiscard]] ModelSamples continued();
  [[nodiscard]] ModelSamples classified();
  [[nodiscard]] std::string text_of(std::span<const std::int32_t> tokens) const;

  Session& session_;
  PipelineRunner& runner_;
  const Dataset& data_;
  std::int64_t rows_, shown_;
  BatchMemory host_, device_;
  Buffer logits_, logits_host_;  // f32 (blocks, rows, classes per block), on ranks with the head
  std::optional<Words> words_;   // on rank 0, for texts
  std::vector<std::string> classes_;
  HostStream host_stream_;
};

}  // namespace trireme
