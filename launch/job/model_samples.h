// SPDX-License-Identifier: Apache-2.0
// What the model makes of the first samples of its validation data (its training data, where it has
// no other) while it trains: texts that it continues, each token the likeliest, or pictures and the
// class that it takes each for.
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
  // All references must outlive this. Raises ExitCode::config where the model neither continues
  // texts nor classifies.
  SamplePass(Session& session, PipelineRunner& runner, const Dataset& data);

  // Rank 0 has the samples. All ranks compute the same passes: one for pictures, one for each of
  // the tokens that a text is continued by. Between two steps. Collective; blocks the host.
  [[nodiscard]] ModelSamples run();

 private:
  void read_samples();
  void forward();
  // By row of a micro-batch the likeliest class; of texts at position `at`. On every rank.
  [[nodiscard]] std::vector<std::int32_t> likeliest(std::int64_t at);
  void fetch_logits(std::int64_t at);
  [[nodiscard]] ModelSamples continued();
  [[nodiscard]] ModelSamples classified();
  [[nodiscard]] std::string text_of(std::span<const std::int32_t> tokens) const;

  Session& session_;
  PipelineRunner& runner_;
  const Dataset& data_;
  std::int64_t rows_, shown_;
  BatchMemory host_, device_;
  Buffer logits_, logits_host_;  // f32 (blocks, rows, classes of a block), where the head is
  std::optional<Words> words_;   // rank 0's, of texts
  std::vector<std::string> classes_;
  HostStream host_stream_;
};

}  // namespace trireme
