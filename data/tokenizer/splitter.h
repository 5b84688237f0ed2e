// SPDX-License-Identifier: Apache-2.0
// Cuts text into the pieces that merges never cross.
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

// One rule for any number of threads; what a thread needs of its own is in a Scratch.
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

  // Raises ExitCode::data, naming `place`, for a pattern that PCRE2 refuses or that matches nothing
  // at all as well.
  Splitter(const SplitRule& rule, const std::string& place);
  ~Splitter();
  Splitter(Splitter&&) noexcept;
  Splitter& operator=(Splitter&&) noexcept;

  // Appends the pieces of `text`, which is valid UTF-8.
  void split(std::string_view text, Scratch& scratch, std::vector<TextSpan>& pieces) const;

  // The same as far as `stop`; where the text goes on behind its end in a way that is not known
  // (`open`), as far as the pieces do not depend on that. Gives the end of the last of them.
  std::size_t split_part(std::string_view text, std::size_t stop, bool open, Scratch& scratch,
                         std::vector<TextSpan>& pieces) const;

  // Whether every piece follows from where it begins, which split_part() needs.
  [[nodiscard]] bool is_local() const;

  // Whether the pattern matches somewhere.
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
