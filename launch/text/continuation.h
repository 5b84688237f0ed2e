// SPDX-License-Identifier: Apache-2.0
// A text being generated: its certain part, and its end.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "launch/engine/text/scorer.h"
#include "launch/engine/text/text_generator.h"
#include "launch/text/chat_pieces.h"
#include "launch/text/words.h"

namespace trireme {

// The prompts of `trireme generate`.
struct Prompt {
  std::string text;  // "": given by ids
  std::vector<std::int32_t> ids;
  std::string where;         // for messages: the option, or a file's line
  std::uint64_t sample = 0;  // added to the seed
};

[[nodiscard]] Prompt prompt_of_text(const std::string& text, const Words& words,
                                    const std::string& what = "--prompt");
// One JSON object per line: {"prompt": "..."} or {"prompt_ids": [...]}, or with `chat`
// {"messages": [...]}; other keys are ignored. Raises ExitCode::config, naming the line.
[[nodiscard]] std::vector<Prompt> read_prompts(const std::string& path, const Words& words,
                                               const ChatPieces* chat = nullptr);

// The end tokens from the generation_config.json (or config.json) that an import left in the run
// directory.
[[nodiscard]] std::vector<std::int32_t> end_tokens_of_run(const std::string& run);

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

// Log-likelihoods of continuations, as JSON lines in and out: for tasks with given answers.
struct ScoredFile {
  std::string path;
  std::vector<ScoredText> texts;
  std::vector<std::size_t> bytes;  // per continuation; 0: given by ids
};

// Reads lines {"context": "...", "continuation": "..."}, or with "context_ids" and
// "continuation_ids". Trailing spaces of a context move to the continuation, and both are encoded
// together, as in lm-evaluation-harness. Raises ExitCode::config, naming the line.
[[nodiscard]] ScoredFile read_continuations(const std::string& path, const Words& words);

// One line per text, in order.
[[nodiscard]] std::string score_lines(const ScoredFile& file, std::span<const TextScore> scores);
// Totals.
[[nodiscard]] std::string score_summary(const ScoredFile& file, std::span<const TextScore> scores);

}  // namespace trireme
