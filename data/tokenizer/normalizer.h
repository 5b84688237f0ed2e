// SPDX-License-Identifier: Apache-2.0
// The normalizer of a tokenizer.json, for tokenizers that are not byte-level.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/splitter.h"

namespace trireme {

// Thread-safe.
class Normalizer {
 public:
  // From JSON. Raises ExitCode::data, naming `path` and the part, if it has unsupported parts.
  Normalizer(const std::string& normalizer, const std::string& path);

  // `begins`: the text is not the rest of one that was cut.
  [[nodiscard]] std::string apply(std::string_view text, bool begins,
                                  Splitter::Scratch& scratch) const;

  // Whether a text may be cut between an ASCII letter and a space: then the parts' results make the
  // whole's, and there is a letter before the cut.
  [[nodiscard]] bool is_local() const { return local_; }
  [[nodiscard]] bool replaces_spaces() const { return replaces_spaces_; }

 private:
  friend class NormalizerReader;
  using Step = std::function<void(std::string& text, bool begins, Splitter::Scratch& scratch)>;
  std::vector<Step> steps_;
  bool local_ = true, replaces_spaces_ = false;
};

}  // namespace trireme
