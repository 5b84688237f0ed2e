// SPDX-License-Identifier: Apache-2.0
// The thread blocks of NCCL's calls in a planned job, and what they cost matmuls beside them.
#pragma once

#include <string>
#include <vector>

#include "runtime/comm/comm_role.h"
#include "runtime/config/config.h"
#include "runtime/plan/hardware.h"

namespace trireme {

struct RolePrice {
  CommRole role{};
  int most = 0;         // thread blocks of a call; 0: NCCL's choice, which is not known
  bool bounded = true;  // by the config, else NCCL's choice
  int left = 0;         // multiprocessors that matmuls leave to calls of this role
  double slowdown = 1;  // of a matmul beside such calls; NaN: not known
};

// One row for each role that has a group of several ranks, on GPUs. `config` is resolved.
[[nodiscard]] std::vector<RolePrice> role_prices(const Config& config,
                                                 const plan::Hardware& hardware);
// A line per row; empty without rows.
[[nodiscard]] std::string describe_roles(const Config& config, const plan::Hardware& hardware);

}  // namespace trireme
