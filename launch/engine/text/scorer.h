// SPDX-License-Identifier: Apache-2.0
// How likely a model thinks given texts are, which is what multiple-choice tasks ask.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "launch/engine/session.h"

namespace trireme {

// The tokens from `first` on are scored, 1 or more, behind those before them.
struct ScoredText {
  std::vector<std::int32_t> tokens;
  std::int64_t first = 1;
};

struct TextScore {
  double log_likelihood = 0;  // nats, the sum of the tokens that are scored
  bool greedy = false;        // each of them is the likeliest
};

// The session was made for evaluation; a micro-batch of it has train.micro_batch texts, and the
// data ranks share them. A text begins with its last model.context + 1 tokens at most. Collective,
// with the same texts on all ranks. Raises ExitCode::config, with the text's index, where no token
// is left before those that are scored, and for ids outside the vocabulary.
[[nodiscard]] std::vector<TextScore> score_texts(Session& session,
                                                 std::span<const ScoredText> texts);

}  // namespace trireme
