// SPDX-License-Identifier: Apache-2.0
// The best evaluation of a run by checkpoint.keep_best, stored with the state after every step, so
// that a run that resumes judges as one that was never interrupted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/checkpoint/restore/verify.h"
#include "runtime/train/evaluation.h"

namespace trireme {

struct BestEvaluation {
  std::string metric;  // "" = none is kept
  std::optional<double> value{};
  std::int64_t step = 0;
  std::int64_t since = 0;  // evaluations after it

  // Of an evaluation after `done` steps, whose metric is `now`; NaN is never better. True if it is
  // the best one.
  bool add(std::optional<double> now, std::int64_t done);
  // "auc 0.934 after step 120"
  [[nodiscard]] std::string describe() const;
};

// The value of a metric that train.stop_at and checkpoint.keep_best may name; nothing if the
// evaluation has none, as an area under the curve of a single class.
[[nodiscard]] std::optional<double> metric_of(const TargetSpec& targets,
                                              const EvaluationResult& result,
                                              std::string_view metric);

// To and from the state of a checkpoint: a JSON object's text. Of another metric: an empty one.
[[nodiscard]] std::string stored_text(const BestEvaluation& best);
[[nodiscard]] BestEvaluation best_in(const Manifest& manifest, const std::string& metric);

// The directory of the run's best checkpoint, by its newest one. Raises ExitCode::config if the run
// keeps none.
[[nodiscard]] std::string best_checkpoint(const std::string& run);

}  // namespace trireme
