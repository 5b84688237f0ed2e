// SPDX-License-Identifier: Apache-2.0
// Splits text into pieces that merges never cross.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizer/spec.h"

namespace trireme {

struct TextSpan {
  std::size_t begin = 0, end = 0;
};

// Thread-safe; the state of a thread is in a Scratch.
class Splitter {
 public:
  class Scratch {
   public:
    Scratch();
    ~Scratch();
    Scratch(Scratch&&) noexcept;
    Scratch& operator=(Scratch&&) noexcept;

   private:
    friend class Splitter;
    struct State;
    std::unique_ptr<State> state_;
  };

  // Raises ExitCode::data, naming `place`, for a pattern that PCRE2 refuses or that also matches
  // the empty text.
  Splitter(const SplitRule& rule, const std::string& place);
  ~Splitter();
  Splitter(Splitter&&) noexcept;
  Splitter& operator=(Splitter&&) noexcept;

  // Appends the pieces of `text`, which must be valid UTF-8.
  void split(std::string_view text, Scratch& scratch, std::vector<TextSpan>& pieces) const;

  // The same up to `stop`; if unknown text follows (`open`), only pieces that do not depend on it.
  // Returns the end of the last piece.
  std::size_t split_part(std::string_view text, std::size_t stop, bool open, Scratch& scratch,
                         std::vector<TextSpan>& pieces) const;

  // Whether every piece depends only on its start, as split_part() needs.
  [[nodiscard]] bool is_local() const;

  // `text` with `to` for every match.
  [[nodiscard]] std::string replaced(std::string_view text, std::string_view to,
                                     Scratch& scratch) const;

  // Whether the pattern matches anywhere.
  [[nodiscard]] bool matches(std::string_view text, Scratch& scratch) const;

 private:
  void join(const std::vector<std::pair<TextSpan, bool>>& marked,
            std::vector<TextSpan>& pieces) const;

  struct Code;
  std::unique_ptr<Code> code_;
  SplitBehavior behavior_;
  bool invert_;
};

}  // namespace trireme
