// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/start_plan.h"

#include <fmt/format.h>

#include "runtime/comm/mpi.h"
#include "runtime/comm/nccl.h"

namespace trireme {
namespace {

constexpr int all_gathers = 3;

}  // namespace

StartPlan plan_start(int ranks, std::span<const DryGroup> groups) {
  StartPlan start{.ranks = ranks, .limit_seconds = usual_start_seconds(ranks)};
  if (ranks == 1) return start;
  start.communicators = 1;
  start.roots = nccl_roots(ranks);
  start.ranks_of_root = (ranks + start.roots - 1) / start.roots;
  start.messages = 1 + std::int64_t{all_gathers} * (ranks - 1);
  for (const DryGroup& group : groups) {
    if (group.parent == 1) continue;  // not of NCCL
    ++start.splits;
    start.messages += group.parent - 1;
    if (group.size == 1) continue;
    ++start.communicators;
    start.messages += 1 + std::int64_t{all_gathers} * (group.size - 1);
  }
  return start;
}

std::string describe(const StartPlan& start) {
  return fmt::format(
      "start: {} ranks meet at {} root{} of at most {}; each makes {} NCCL group{} in {} split{} "
      "and "
      "sends {} messages for them; limit {:g} s\n",
      start.ranks, start.roots, start.roots == 1 ? "" : "s", start.ranks_of_root,
      start.communicators, start.communicators == 1 ? "" : "s", start.splits,
      start.splits == 1 ? "" : "s", start.messages, start.limit_seconds);
}

}  // namespace trireme
