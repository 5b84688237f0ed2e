// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/comm/process_mesh.h"
#include "runtime/comm/timing/clock_offset.h"
#include "runtime/device/trace/host_trace.h"
#include "runtime/device/trace/trace_log.h"
#include "runtime/telemetry/trace/rank_trace.h"

namespace trireme {

// What a rank's streams and threads noted, as tracks and spans on the shared clock: times count
// from `origin` of rank 0's clock, calls have the numbers by which ranks find each other's, and
// peers their ranks in the job. Local.
[[nodiscard]] RankTrace assemble(const Traced& traced, const HostTrace::Entries& host,
                                 const ClockLine& clock, std::int64_t origin,
                                 const ProcessMesh& mesh);

}  // namespace trireme
