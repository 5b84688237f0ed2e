// SPDX-License-Identifier: Apache-2.0
// Log-likelihoods of given texts, as multiple-choice tasks need them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "launch/engine/session.h"

namespace trireme {

// Scores the tokens from `first` (at least 1) on, given those before.
struct ScoredText {
  std::vector<std::int32_t> tokens;
  std::int64_t first = 1;
};

struct TextScore {
  double log_likelihood = 0;  // nats, summed over the scored tokens
  bool greedy = false;        // every scored token is the most likely one
};

// The session must be for evaluation with train.micro_batch texts per micro-batch; the data ranks
// share the texts. Only the last model.context + 1 tokens of a text are read. Collective, with the
// same texts on all ranks. Raises ExitCode::config, with the text's index, if no token is left
// before the scored ones, and for ids outside the vocabulary.
[[nodiscard]] std::vector<TextScore> score_texts(Session& session,
                                                 std::span<const ScoredText> texts);

}  // namespace trireme
