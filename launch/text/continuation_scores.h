// SPDX-License-Identifier: Apache-2.0
// Log-likelihoods of continuations, as JSON lines in and out: for tasks with given answers.
#pragma once

#include <string>
#include <vector>

#include "launch/engine/text/scorer.h"
#include "launch/text/words.h"

namespace trireme {

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
