// SPDX-License-Identifier: Apache-2.0
// Log-likelihoods of continuations, in and out as JSON lines: what tasks with given answers need.
#pragma once

#include <string>
#include <vector>

#include "launch/engine/text/scorer.h"
#include "launch/text/words.h"

namespace trireme {

struct ScoredFile {
  std::string path;
  std::vector<ScoredText> texts;
  std::vector<std::size_t> bytes;  // of each continuation; 0: given by ids
};

// Lines {"context": "...", "continuation": "..."}, or with "context_ids" and "continuation_ids".
// Spaces that end a context are read with the continuation, and both are encoded together, as
// lm-evaluation-harness does. Raises ExitCode::config, naming the line.
[[nodiscard]] ScoredFile read_continuations(const std::string& path, const Words& words);

// A line for each text, in order.
[[nodiscard]] std::string score_lines(const ScoredFile& file, std::span<const TextScore> scores);
// What they come to.
[[nodiscard]] std::string score_summary(const ScoredFile& file, std::span<const TextScore> scores);

}  // namespace trireme
