// SPDX-License-Identifier: Apache-2.0
// Each rank's times in windows of steps, and the ranks that stand out. Plain values: a running job
// and a reader of its files reach the same conclusions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/telemetry/times.h"

namespace trireme {

// The ranks' mesh: rank = (pipeline * data_size + data) * tensor_size + tensor.
struct RankMesh {
  int data = 1, tensor = 1, pipeline = 1;

  [[nodiscard]] int size() const { return data * tensor * pipeline; }
  [[nodiscard]] int per_stage() const { return data * tensor; }
  friend bool operator==(const RankMesh&, const RankMesh&) = default;
};

// A rank that stands out from its peers.
struct SlowRank {
  int rank = -1;           // none
  double seconds = 0;      // how much longer it takes than its peers, over the run
  double own_seconds = 0;  // its own time
};

struct SlowRanks {
  SlowRank compute;     // its own work, with a core
  SlowRank data;        // waits for data
  SlowRank core;        // waits for a core
  SlowRank checkpoint;  // waits for checkpoints
  SlowRank messages;    // sends its messages late, for none of the reasons above
  // For stages of a single rank: the stage that computes longest. Not a fault: stages may be cut
  // unevenly.
  SlowRank stage;
};

// The ranks that stand out among those of their stage with equal work, from each rank's sums over a
// run.
[[nodiscard]] SlowRanks slow_ranks(const RankMesh& mesh, std::span<const Times> sums);

// The lower median; 0 if empty.
[[nodiscard]] double lower_median(std::vector<double> values);

}  // namespace trireme
