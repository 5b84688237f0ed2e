// SPDX-License-Identifier: Apache-2.0
// The pre_tokenizer of a tokenizer.json, for tokenizers that are not byte-level.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/tokenizer/splitter.h"

namespace trireme {

// Thread-safe.
class WordSplitter {
 public:
  struct Word {
    std::string text{};
    bool first = false;  // nothing of the whole text is before it
  };

  // From JSON. Raises ExitCode::data, naming `path` and the part, if it has unsupported parts.
  // `spaces_replaced`: the normalizer leaves none.
  WordSplitter(const std::string& pre_tokenizer, bool spaces_replaced, const std::string& path);

  // Replaces the words by those that they are made of.
  void split(std::vector<Word>& words, Splitter::Scratch& scratch) const;

  // Whether a text may be cut between an ASCII letter and a space, unless words hold both.
  [[nodiscard]] bool is_local() const { return local_; }
  // Whether no word holds an ASCII letter and a space (or its replacement) after it.
  [[nodiscard]] bool splits_at_spaces() const { return splits_at_spaces_; }

 private:
  friend class WordSplitterReader;
  using Step = std::function<void(Word word, Splitter::Scratch& scratch, std::vector<Word>& words)>;
  std::vector<Step> steps_;
  bool local_ = true, splits_at_spaces_ = false;
};

}  // namespace trireme
