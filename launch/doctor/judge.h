// SPDX-License-Identifier: Apache-2.0
// What measured values mean. Pure functions; each adds one finding.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "launch/doctor/finding.h"
#include "launch/engine/agreement/core_sharing.h"
#include "runtime/telemetry/host.h"
#include "runtime/telemetry/machine_load.h"

namespace trireme::doctor {

// Ranks that have to take turns on cores, in a job of `ranks`.
void judge_cores(Findings& findings, const CoreCrowd& crowd, int ranks);
// What else uses the cores of a host that no rank computes on.
void judge_load(Findings& findings, const std::string& host, const MachineLoad& load);
// Seconds of each rank for the same work.
void judge_speeds(Findings& findings, std::span<const double> seconds,
                  std::span<const std::string> hosts);
// What `ranks` ranks of one host will hold together in its memory.
void judge_planned_memory(Findings& findings, std::uint64_t planned, int ranks,
                          const HostMemory& memory);
// All-reduce on groups whose usual times are not known. `text` describes them; `small_seconds` is
// of 8 bytes, `bandwidth` the bus bandwidth of large ones in MB/s.
void judge_collectives(Findings& findings, const std::string& text, double small_seconds,
                       double bandwidth);

}  // namespace trireme::doctor
