// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/comm/process_mesh.h"
#include "runtime/comm/timing/clock_offset.h"
#include "runtime/device/trace/host_trace.h"
#include "runtime/device/trace/trace_log.h"
#include "runtime/telemetry/trace/rank_trace.h"

namespace trireme {

// Writes, on rank 0 of `world`, DIRECTORY/steps_10-12.json.gz with all ranks and
// DIRECTORY/steps_10-12.kineto/rank_0.pt.trace.json.gz and so on, with one rank's part in memory at
// a time. Errors are logged. Collective; blocks the host.
void write_trace(Communicator& world, const std::string& directory, const RankTrace& trace,
                 const TraceFacts& facts);

// A rank's stream and thread records as tracks and spans on the shared clock: times count from
// `origin` on rank 0's clock, calls have numbers that match those of other ranks, and peers are
// world ranks. Local.
[[nodiscard]] RankTrace assemble(const Traced& traced, const HostTrace::Entries& host,
                                 const ClockLine& clock, std::int64_t origin,
                                 const ProcessMesh& mesh);

}  // namespace trireme
