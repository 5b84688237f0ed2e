// SPDX-License-Identifier: Apache-2.0
// The remaining time of a run: the estimate of the console, `trireme top` and `trireme report`.
#pragma once

#include <cstdint>

#include "runtime/telemetry/bottleneck/bottleneck.h"

namespace trireme {

// How often something due every `every` steps (0: never), and possibly after the last of `steps`,
// will occur after step `done`.
[[nodiscard]] std::int64_t times_due(std::int64_t done, std::int64_t steps, std::int64_t every,
                                     bool behind_last);

// Seconds each, as measured so far; 0 if it has not occurred yet.
struct Pace {
  double step = 0;
  double evaluation = 0;
  double checkpoint = 0;  // that steps wait for one
};

// Per checkpoint in `totals`, whose steps end with `last`.
[[nodiscard]] double checkpoint_seconds(const StepTotals& totals, std::int64_t last,
                                        const RunFacts& facts);

// For steps, evaluations and checkpoints after step `done` of `steps`.
[[nodiscard]] double seconds_left(std::int64_t done, std::int64_t steps, const RunFacts& facts,
                                  const Pace& pace);

}  // namespace trireme
