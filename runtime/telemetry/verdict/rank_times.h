// SPDX-License-Identifier: Apache-2.0
// What each rank did with its time, in windows of steps, and which ranks stand out. Plain values:
// a run that goes on and a reader of its files come to the same conclusions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

// Of one rank, in milliseconds, summed over some steps. compute, data_wait, comm_wait, bubble,
// core_wait and between add up to period.
struct RankTimes {
  double period = 0;      // from the end of the step before to the end of the step
  double compute = 0;     // its own work, on a core
  double data_wait = 0;   // for its own data
  double comm_wait = 0;   // for collectives, whatever for
  double bubble = 0;      // for neighbours in the pipeline
  double core_wait = 0;   // its process had no core
  double between = 0;     // between steps
  double checkpoint = 0;  // of that
  // For messages of collectives on any thread, hidden waits included; 0 where the back end cannot
  // tell.
  double message_wait = 0;
  // Over the steps in which it arrived last of its stage at the collectives, and by 2 % of the step
  // or more: by how much, and how many those are.
  double late = 0, late_steps = 0;
  double micro_batches = 0;  // no time: what it was given

  void add(const RankTimes& more);
};

// Each of them with its key in ranks.jsonl.
inline constexpr std::pair<const char*, double RankTimes::*> rank_time_keys[] = {
    {"period_ms", &RankTimes::period},
    {"compute_ms", &RankTimes::compute},
    {"data_wait_ms", &RankTimes::data_wait},
    {"comm_wait_ms", &RankTimes::comm_wait},
    {"bubble_ms", &RankTimes::bubble},
    {"core_wait_ms", &RankTimes::core_wait},
    {"between_ms", &RankTimes::between},
    {"checkpoint_ms", &RankTimes::checkpoint},
    {"message_wait_ms", &RankTimes::message_wait},
    {"late_ms", &RankTimes::late},
    {"late_share", &RankTimes::late_steps},
    {"micro_batches", &RankTimes::micro_batches}};

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
[[nodiscard]] SlowRanks slow_ranks(const RankMesh& mesh, std::span<const RankTimes> sums);

// The lower median; 0 of none.
[[nodiscard]] double lower_median(std::vector<double> values);

}  // namespace trireme
