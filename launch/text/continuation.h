// SPDX-License-Identifier: Apache-2.0
// A text being generated: its certain part, and its end.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "launch/engine/text/text_generator.h"
#include "launch/text/prompts.h"
#include "launch/text/words.h"

namespace trireme {

struct StopRules {
  std::int64_t tokens = 0;         // limit
  std::vector<std::string> texts;  // ends before the first of these; empty: none
  std::vector<std::int32_t> ids;   // ends before one of these
};

class Continuation {
 public:
  // Both must outlive this.
  Continuation(const Words& words, const StopRules& rules) : words_(words), rules_(rules) {}

  // Takes the next token, or TextGenerator's value for none. Returns the text that may be shown
  // since the last call; a possible beginning of a stop text is held back until decided.
  std::string take(std::int32_t token);

  [[nodiscard]] bool over() const { return !reason_.empty(); }
  // "length", "stop", "context" or "not_finite"; "": not over.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  // Without the stop text.
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::vector<std::int32_t>& ids() const { return ids_; }

 private:
  [[nodiscard]] std::string shown_up_to(std::size_t end);
  [[nodiscard]] std::size_t first_stop(std::size_t from) const;
  [[nodiscard]] std::size_t certain() const;

  const Words& words_;
  const StopRules& rules_;
  std::string text_, reason_;
  std::vector<std::int32_t> ids_;
  std::size_t shown_ = 0;
};

// Prompts continued and written, by all copies of the model that a job has.

// Rank 0 writes to standard output: the single prompt and its text as it is generated, or with
// `lines` a JSON object per prompt, in order. False if a logit was not finite. Collective over all
// ranks.
[[nodiscard]] bool continue_prompts(Session& session, TextGenerator& generator, const Words& words,
                                    const StopRules& stop, std::span<const Prompt> prompts,
                                    bool lines);

}  // namespace trireme
