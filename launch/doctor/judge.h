// SPDX-License-Identifier: Apache-2.0
// Judges measured values. Pure functions; each adds one finding.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "launch/doctor/finding.h"
#include "launch/engine/agreement/core_sharing.h"
#include "runtime/telemetry/host.h"
#include "runtime/telemetry/machine_load.h"

namespace trireme::doctor {

// Ranks that share cores, in a job of `ranks`.
void judge_cores(Findings& findings, const CoreCrowd& crowd, int ranks);
// Other load on a host's cores, while no rank computes.
void judge_load(Findings& findings, const std::string& host, const MachineLoad& load);
// Seconds of each rank for equal work.
void judge_speeds(Findings& findings, std::span<const double> seconds,
                  std::span<const std::string> hosts);
// Total planned memory of `ranks` ranks on one host.
void judge_planned_memory(Findings& findings, std::uint64_t planned, int ranks,
                          const HostMemory& memory);
// All-reduce on groups without known reference times. `text` describes them; `small_seconds` is for
// 8 bytes, `bandwidth` is the bus bandwidth for large ones in MB/s.
void judge_collectives(Findings& findings, const std::string& text, double small_seconds,
                       double bandwidth);

}  // namespace trireme::doctor
