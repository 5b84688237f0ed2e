// SPDX-License-Identifier: Apache-2.0
// What the ranks of an expert group do in a step: rows that travel, rounds, time at the experts'
// matmuls. Layers with experts add to it through their Context; the host knows the counts, because
// it plans the messages.
#pragma once

#include <vector>

#include "runtime/comm/timing/stall_clock.h"

namespace trireme {

// Sums over the forward passes of micro-batches through layers with experts, of a whole group;
// those of groups add up.
struct ExpertPasses {
  double passes = 0, in_rounds = 0;   // all; those of several rounds
  double rows = 0;                    // tokens times slots
  double off_rank = 0, off_node = 0;  // of these: to another rank, to another host
  double fullest = 0;                 // rows of the rank with most, times the ranks
  ExpertPasses& operator+=(const ExpertPasses& more) {
    passes += more.passes;
    in_rounds += more.in_rounds;
    rows += more.rows;
    off_rank += more.off_rank;
    off_node += more.off_node;
    fullest += more.fullest;
    return *this;
  }
};

// What a rank tells of a step.
struct ExpertCounts {
  ExpertPasses passes{};    // of its group; from that one's first rank only
  double own_rows = 0;      // that it computes
  double behind_rows = 0;   // that the fullest rank of each pass computes in addition
  double milliseconds = 0;  // of its matmuls of experts
};

struct ExpertMeter {
  explicit ExpertMeter(Device& device) : work(device) {}

  void begin_step(std::int64_t step) {
    work.begin_step(step);
    now = {};
  }
  // Of the current step, once it is enqueued; without the time.
  [[nodiscard]] ExpertCounts counts(bool first_of_group) const {
    ExpertCounts counts = now;
    if (!first_of_group) counts.passes = {};
    return counts;
  }

  std::vector<int> nodes{};  // by rank of the group: its host; empty: one host
  ExpertCounts now{};
  StreamClock work;
};

// Times the experts' work that is enqueued during its life. A null meter, or one whose stream is
// being recorded, times nothing.
class TimedExperts {
 public:
  TimedExperts(ExpertMeter* meter, Stream& stream)
      : meter_(stream.capturing() ? nullptr : meter), stream_(stream) {
    if (meter_ != nullptr) meter_->work.start(stream_);
  }
  ~TimedExperts() {
    if (meter_ != nullptr) meter_->work.stop(stream_);
  }
  TimedExperts(const TimedExperts&) = delete;
  TimedExperts& operator=(const TimedExperts&) = delete;

 private:
  ExpertMeter* meter_;
  Stream& stream_;
};

}  // namespace trireme
