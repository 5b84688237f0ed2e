// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/time_left.h"

#include <algorithm>

namespace trireme {

std::int64_t times_due(std::int64_t done, std::int64_t steps, std::int64_t every,
                       bool behind_last) {
  if (done >= steps) return 0;
  const std::int64_t inside = every > 0 ? steps / every - done / every : 0;
  const bool at_last = every > 0 && steps % every == 0;
  return inside + (behind_last && !at_last ? 1 : 0);
}

double checkpoint_seconds(const StepTotals& totals, std::int64_t last, const RunFacts& facts) {
  const std::int64_t saves = times_due(last - totals.steps, last, facts.checkpoint_every, false);
  return saves > 0
             ? 1e-3 * parts_of(totals.times)[TimePart::checkpoint] / static_cast<double>(saves)
             : 0.0;
}

double seconds_left(std::int64_t done, std::int64_t steps, const RunFacts& facts,
                    const Pace& pace) {
  const auto of = [](std::int64_t count, double each) { return static_cast<double>(count) * each; };
  return of(std::max<std::int64_t>(steps - done, 0), pace.step) +
         of(times_due(done, steps, facts.eval_every, true), pace.evaluation) +
         of(times_due(done, steps, facts.checkpoint_every, facts.checkpoint_every > 0),
            pace.checkpoint);
}

}  // namespace trireme
