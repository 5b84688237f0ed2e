// SPDX-License-Identifier: Apache-2.0
// What the tokens of a run's model stand for: bytes, or what a tokenizer says.
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
  // `tokenizer`: tokenizer.json or *.model; "": that in the run's directory, where an import leaves
  // it. Without either a vocabulary of 256 is one of bytes, and others are not known. Raises
  // ExitCode::config for a tokenizer with more ids than the model, ExitCode::data for another than
  // the run's data was packed with.
  Words(const std::string& run, std::string tokenizer, std::int64_t vocabulary);

  [[nodiscard]] bool known() const { return bytes_ || tokenizer_.has_value(); }
  // Raises ExitCode::config, naming `what`, for text that is not UTF-8 where a tokenizer reads it,
  // and where the words are not known.
  [[nodiscard]] std::vector<std::int32_t> tokens_of(std::string_view text,
                                                    const std::string& what) const;
  // May be a part of a letter.
  [[nodiscard]] std::string text_of(std::int32_t token) const;

 private:
  std::int64_t vocabulary_;
  bool bytes_ = false;
  std::optional<Tokenizer> tokenizer_;
};

}  // namespace trireme
