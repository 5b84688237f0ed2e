// SPDX-License-Identifier: Apache-2.0
// Results of `trireme eval` per data set: for people, and for programs.
#pragma once

#include <span>
#include <string>

#include "runtime/train/evaluation.h"

namespace trireme {

struct EvaluatedData {
  std::string data;  // its path
  std::int64_t samples = 0, of = 0;
  EvaluationResult result{};
  TargetSpec targets{};
  double bytes = 0;  // of the targets' text; 0: unknown
};

[[nodiscard]] std::string evaluation_text(const EvaluatedData& evaluated);

// One JSON object; numbers read back to the same bits. `weights`: the evaluated ones.
[[nodiscard]] std::string evaluation_json(const std::string& run, const std::string& weights,
                                          std::span<const EvaluatedData> results);

}  // namespace trireme
