// SPDX-License-Identifier: Apache-2.0
// What NCCL allocates for a group's messages, from its sources (2.28.9): nothing in its interface
// tells it. Pure functions.
#pragma once

#include <cstdint>

#include "runtime/plan/comm_cost.h"

namespace trireme::plan {

enum class NcclTraffic : std::uint8_t {
  gathers,   // all-gathers and broadcasts: rings
  sums,      // all-reduces as well: rings and trees
  exchange,  // messages between all pairs (all-to-all, our own ordered sums) beside rings
  send,      // messages to one rank
  receive    // messages from one rank
};

struct NcclGroup {
  GroupSpan span{};
  NcclTraffic traffic = NcclTraffic::sums;
  int min_ctas = 0, max_ctas = 0;  // as in ncclConfig_t; 0: NCCL's choice
  bool nvls = false;               // sums may go over NVLink SHARP
  // Adapters read and write the GPU's memory; else messages to other domains wait in host memory.
  bool direct = true;
};

// Of one rank. `host` is page-locked.
struct NcclMemory {
  std::uint64_t device = 0;
  std::uint64_t host = 0;
  NcclMemory& operator+=(const NcclMemory& other) {
    device += other.device;
    host += other.host;
    return *this;
  }
};
[[nodiscard]] NcclMemory nccl_memory(const NcclGroup& group, const Links& links);

// Links inside a domain that are this fast are NVLink; PCIe 5 reaches 64e9.
inline constexpr double slowest_nvlink = 100e9;

// NCCL's channels for the group's collectives: at most as many CTAs run them.
[[nodiscard]] int nccl_channels(const NcclGroup& group, const Links& links);

}  // namespace trireme::plan
