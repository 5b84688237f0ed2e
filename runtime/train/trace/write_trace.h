// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/telemetry/trace/rank_trace.h"

namespace trireme {

// Writes, on rank 0 of `world`, DIRECTORY/steps_10-12.json.gz with all ranks and
// DIRECTORY/steps_10-12.kineto/rank_0.pt.trace.json.gz and so on, with one rank's part in memory at
// a time. Errors are logged. Collective; blocks the host.
void write_trace(Communicator& world, const std::string& directory, const RankTrace& trace,
                 const TraceFacts& facts);

}  // namespace trireme
