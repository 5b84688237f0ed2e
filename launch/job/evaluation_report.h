// SPDX-License-Identifier: Apache-2.0
// What `trireme eval` says of each data set: for people, and for programs.
#pragma once

#include <span>
#include <string>

#include "runtime/train/evaluation.h"

namespace trireme {

struct EvaluatedData {
  std::string data;  // where it lies
  std::int64_t samples = 0, of = 0;
  EvaluationResult result{};
  bool tokens = false;  // targets are tokens: a perplexity has a meaning
  double bytes = 0;     // of text that the targets stand for; 0: not known
};

[[nodiscard]] std::string evaluation_text(const EvaluatedData& evaluated);

// One object; numbers read back to the same bits. `weights`: those that were evaluated.
[[nodiscard]] std::string evaluation_json(const std::string& run, const std::string& weights,
                                          std::span<const EvaluatedData> results);

}  // namespace trireme
