// SPDX-License-Identifier: Apache-2.0
// Draws tokens from a GPT, one after another. Keeps the last `context` tokens as the window that
// the model sees.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/comm/host_stream.h"
#include "runtime/engine/session.h"

namespace trireme {

struct SamplingOptions {
  double temperature = 0.8;  // 0: the likeliest token
  std::int64_t top_k = 0;    // 0: all
  std::uint64_t seed = 1234;
};

// One copy of the model, on the ranks of one data index: all of them make the same calls.
class TextGenerator {
 public:
  // The session was made for a config that is resolved for Purpose::generate, with micro-batches of
  // one sequence, and must outlive this. Collective over the ranks of the copy.
  TextGenerator(Session& session, const SamplingOptions& sampling);

  // Appends tokens to the text so far. Raises ExitCode::config for an id outside the vocabulary.
  void feed(std::span<const std::int32_t> tokens);
  // Draws the next token and appends it. The same seed and text give the same token. Nothing where
  // the model's answer is not finite. Collective over the ranks of the copy.
  [[nodiscard]] std::optional<std::int32_t> next();

 private:
  // Of the last token of the text; empty where this rank does not hold the head.
  [[nodiscard]] std::span<const float> next_logits();
  [[nodiscard]] std::span<const float> logits_at(const Context& context, std::int64_t position);
  [[nodiscard]] std::int32_t draw(std::span<const float> logits) const;

  Session& session_;
  SamplingOptions sampling_;
  std::int64_t context_, vocabulary_;
  Device& device_;
  Stream& stream_;
  PipelineRunner runner_;
  HostStream host_;
  Buffer inputs_, inputs_host_, targets_, row_, row_host_;
  std::vector<std::int32_t> text_;
};

}  // namespace trireme
