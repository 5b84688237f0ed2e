// SPDX-License-Identifier: Apache-2.0
// How far the clocks of the ranks (TraceClock) are apart, by round trips as in NTP: rank 0 notes
// when a question left and when the answer came, the answer says what the other clock showed in
// between, and of several the quickest is taken. The offset lies within half of its round trip,
// whatever the way there and the way back took each. Ranks of one kernel have one clock: the first
// of them is asked, or nobody where that is rank 0's.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/comm/communicator.h"

namespace trireme {

struct ClockReading {
  std::int64_t at = 0;      // ns of the rank's own clock
  std::int64_t offset = 0;  // ns by which it is ahead of rank 0's
  std::int64_t error = 0;   // ns by which the offset may be wrong
};

// Of every rank, on every rank. Collective over `group`, on host memory; blocks the host: one
// clock after another, 24 round trips each, and more for half a second in all where none of them
// was quick.
[[nodiscard]] std::vector<ClockReading> read_clocks(Communicator& group);

// The line through two readings of a rank's clock.
class ClockLine {
 public:
  // Where the readings differ by more than clocks drift, a clock was set in between: then the later
  // reading counts alone, and jumped() tells.
  ClockLine(const ClockReading& before, const ClockReading& after);

  // What rank 0's clock shows at `own` of this one.
  [[nodiscard]] std::int64_t to_rank_0(std::int64_t own) const;
  // ns by which to_rank_0() may be wrong between the two readings.
  [[nodiscard]] std::int64_t error() const { return error_; }
  // In parts per million; of readings that are near each other it is mostly their error.
  [[nodiscard]] double drift_ppm() const { return 1e6 * drift_; }
  [[nodiscard]] bool jumped() const { return jumped_; }

 private:
  ClockReading start_;
  double drift_ = 0;  // ns per ns of the own clock
  std::int64_t error_ = 0;
  bool jumped_ = false;
};

}  // namespace trireme
