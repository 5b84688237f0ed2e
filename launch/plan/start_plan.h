// SPDX-License-Identifier: Apache-2.0
// How a job's ranks find each other on GPUs: what NCCL's bootstrap sends before the first step,
// counted from the groups that a planned rank makes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/comm/dry.h"

namespace trireme {

struct StartPlan {
  int ranks = 1;
  int splits = 0;             // in which a rank takes part
  int communicators = 0;      // of NCCL on a rank, the world's included
  int roots = 1;              // where the world's ranks meet
  int ranks_of_root = 1;      // at most
  std::int64_t messages = 0;  // that a rank sends
  double limit_seconds = 0;
};

// NCCL 2.28.9. A world: a message to the root (bootstrap.cc, sendToRoot), then three all-gathers
// around a ring of its ranks: addresses (ringAllInfo), peers and topology (init.cc,
// initTransportsRank). A split: colors around the parent's ring (commGetSplitInfo), a message to a
// neighbour (bootstrapSplit) and the same three all-gathers of its own ranks.
[[nodiscard]] StartPlan plan_start(int ranks, std::span<const DryGroup> groups);

// "1024 ranks meet at 8 roots of 128; ..."
[[nodiscard]] std::string describe(const StartPlan& start);

}  // namespace trireme
