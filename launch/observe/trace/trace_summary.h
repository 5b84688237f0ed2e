// SPDX-License-Identifier: Apache-2.0
// The time of traced steps: each rank's compute work, and the causes of its waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "launch/observe/trace/trace_file.h"

namespace trireme {

// Shares of the time from a rank's first step to the end of its last; all but `messages` and
// `hidden` add up to 1.
struct RankShares {
  int rank = 0;
  double milliseconds = 0;   // of that time
  double busy = 0;           // the compute stream computed
  double communication = 0;  // it waited for collectives
  double stages = 0;         // it waited for other stages of the pipeline
  double data = 0;
  double host = 0;      // nothing was enqueued
  double messages = 0;  // collectives and messages were in flight
  double hidden = 0;    // part of it overlapped by computation; NaN if there were none
};

enum class GapCause : std::uint8_t { communication, stage, data, host };

// A time in which a compute stream waited.
struct TraceGap {
  int rank = 0;
  std::int64_t begin = 0, end = 0;  // ns, as in the trace
  std::int64_t step = 0;
  GapCause cause = GapCause::host;
  std::string what;  // in words
};

struct TraceSummary {
  std::vector<RankShares> ranks;  // ranks with steps in the trace, by rank
  std::vector<TraceGap> gaps;     // largest first
};

[[nodiscard]] TraceSummary summarize(const TraceFile& trace, std::size_t gaps);

// The printed form, with gap times relative to their rank's step.
[[nodiscard]] std::string text_of(const TraceFile& trace, const TraceSummary& summary);

}  // namespace trireme
