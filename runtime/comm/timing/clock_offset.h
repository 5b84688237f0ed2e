// SPDX-License-Identifier: Apache-2.0
// Offsets between the ranks' clocks (TraceClock), by round trips as in NTP: rank 0 notes the send
// time of a question and the receive time of the answer, which carries the other clock's time; the
// quickest of several trips counts. The error is at most half its round trip. Ranks of one kernel
// share a clock, so only the first of them is asked, and none if that is rank 0.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/comm/communicator.h"

namespace trireme {

struct ClockReading {
  std::int64_t at = 0;      // ns of the rank's own clock
  std::int64_t offset = 0;  // ns by which it is ahead of rank 0's
  std::int64_t error = 0;   // ns, uncertainty of the offset
};

// The clocks of all ranks, on every rank. Collective over `group`, on host memory; blocks the host:
// one clock after another, 24 round trips each, plus up to half a second in all if no trip was
// quick.
[[nodiscard]] std::vector<ClockReading> read_clocks(Communicator& group);

// The line through two readings of one rank's clock.
class ClockLine {
 public:
  // If the readings differ by more than clocks drift, the clock was set in between: then only the
  // later reading counts, and jumped() returns true.
  ClockLine(const ClockReading& before, const ClockReading& after);

  // The time on rank 0's clock at time `own` on this one.
  [[nodiscard]] std::int64_t to_rank_0(std::int64_t own) const;
  // Uncertainty of to_rank_0() between the two readings, in ns.
  [[nodiscard]] std::int64_t error() const { return error_; }
  // In parts per million; for readings close in time mostly their error.
  [[nodiscard]] double drift_ppm() const { return 1e6 * drift_; }
  [[nodiscard]] bool jumped() const { return jumped_; }

 private:
  ClockReading start_;
  double drift_ = 0;  // ns per ns of this rank's clock
  std::int64_t error_ = 0;
  bool jumped_ = false;
};

}  // namespace trireme
