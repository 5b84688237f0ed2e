// SPDX-License-Identifier: Apache-2.0
// Draws tokens from a GPT, one after another. Keeps the last `context` tokens as the window that
// the model sees.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/registry.h"

namespace trireme {

struct SamplingOptions {
  double temperature = 0.8;  // 0: the likeliest token
  std::int64_t top_k = 0;    // 0: all
  std::uint64_t seed = 1234;
};

class TextGenerator {
 public:
  // `config` is resolved for Purpose::generate.
  TextGenerator(const Config& config, const SamplingOptions& sampling);

  // Appends tokens to the text so far. Raises ExitCode::config for an id outside the vocabulary.
  void feed(std::span<const std::int32_t> tokens);
  // Draws the next token and appends it. The same seed and text give the same token.
  [[nodiscard]] std::int32_t next();

  [[nodiscard]] ParamStore& params() { return model_->params(); }
  [[nodiscard]] Stream& stream() { return *stream_; }

 private:
  [[nodiscard]] std::span<const float> next_logits();
  [[nodiscard]] std::int32_t draw(std::span<const float> logits) const;

  SamplingOptions sampling_;
  std::int64_t context_, vocabulary_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Model> model_;
  Buffer inputs_, inputs_host_, targets_, row_, row_host_;
  std::vector<std::int32_t> text_;
};

}  // namespace trireme
