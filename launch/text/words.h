// SPDX-License-Identifier: Apache-2.0
// The meaning of a model's tokens: bytes, or those of a tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace trireme {

class Words {
 public:
  // `tokenizer`: tokenizer.json or *.model; "": the one that an import left in the run directory.
  // Without either, a vocabulary of 256 means bytes, and others are unknown. Raises
  // ExitCode::config for a tokenizer with more ids than the model, ExitCode::data if it differs
  // from the one that packed the run's data.
  Words(const std::string& run, std::string tokenizer, std::int64_t vocabulary);

  [[nodiscard]] bool known() const { return bytes_ || tokenizer_.has_value(); }
  // Raises ExitCode::config, naming `what`, for text that is not UTF-8 with a tokenizer, and if the
  // vocabulary is unknown.
  [[nodiscard]] std::vector<std::int32_t> tokens_of(std::string_view text,
                                                    const std::string& what) const;
  // The token of a template. Raises ExitCode::config, naming `what`, if the tokenizer lacks it.
  [[nodiscard]] std::int32_t id_of(const std::string& token, const std::string& what) const;
  // May be an incomplete UTF-8 sequence.
  [[nodiscard]] std::string text_of(std::int32_t token) const;

 private:
  std::int64_t vocabulary_;
  bool bytes_ = false;
  std::optional<Tokenizer> tokenizer_;
};

}  // namespace trireme
