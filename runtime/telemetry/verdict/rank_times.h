// SPDX-License-Identifier: Apache-2.0
// What each rank did with its time, in windows of steps, and which ranks stand out. Plain values:
// a run that goes on and a reader of its files come to the same conclusions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/telemetry/times.h"

namespace trireme {

// How ranks lie in their mesh: rank = (pipeline * data_size + data) * tensor_size + tensor.
struct RankMesh {
  int data = 1, tensor = 1, pipeline = 1;

  [[nodiscard]] int size() const { return data * tensor * pipeline; }
  [[nodiscard]] int per_stage() const { return data * tensor; }
  friend bool operator==(const RankMesh&, const RankMesh&) = default;
};

// A rank that stands out from its peers.
struct SlowRank {
  int rank = -1;           // none
  double seconds = 0;      // what it takes longer than they usually do, over the run
  double own_seconds = 0;  // what it takes itself
};

struct SlowRanks {
  SlowRank compute;     // its own work, with a core
  SlowRank data;        // waits for data
  SlowRank core;        // waits for a core
  SlowRank checkpoint;  // stands still for checkpoints
  SlowRank messages;    // its messages leave late, and not for one of the above
  // Where stages are single ranks: whose stage computes longer than the others do. No fault: stages
  // may be cut unevenly.
  SlowRank stage;
};

// The ranks that stand out from the others of their stage that were given as much, from each rank's
// sums over a run.
[[nodiscard]] SlowRanks slow_ranks(const RankMesh& mesh, std::span<const Times> sums);

// The lower median; 0 of none.
[[nodiscard]] double lower_median(std::vector<double> values);

}  // namespace trireme
