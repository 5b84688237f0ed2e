// SPDX-License-Identifier: Apache-2.0
// How much longer a run takes: the one estimate of the console, `trireme top` and `trireme report`.
#pragma once

#include <cstdint>

#include "runtime/telemetry/verdict.h"

namespace trireme {

// How often something that is due every `every` steps (0: never), and perhaps behind the last of
// `steps`, comes behind step `done`.
[[nodiscard]] std::int64_t times_due(std::int64_t done, std::int64_t steps, std::int64_t every,
                                     bool behind_last);

// Seconds each, as measured so far; 0 of what has not come yet.
struct Pace {
  double step = 0;
  double evaluation = 0;
  double checkpoint = 0;  // that steps stand still for one
};

// Of one checkpoint in `totals`, whose steps end with `last`.
[[nodiscard]] double checkpoint_seconds(const StepTotals& totals, std::int64_t last,
                                        const RunFacts& facts);

// Of steps, evaluations and checkpoints behind step `done` of `steps`.
[[nodiscard]] double seconds_left(std::int64_t done, std::int64_t steps, const RunFacts& facts,
                                  const Pace& pace);

}  // namespace trireme
