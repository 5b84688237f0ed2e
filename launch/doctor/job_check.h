// SPDX-License-Identifier: Apache-2.0
// What only all ranks together can find out. Collective over the world; findings about the job as a
// whole are rank 0's.
#pragma once

#include <string>
#include <vector>

#include "launch/doctor/finding.h"
#include "runtime/comm/process_mesh.h"
#include "runtime/config/config.h"

namespace trireme::doctor {

// Whether every rank runs the same program with the same config.
void check_sameness(Findings& findings, Communicator& world, const std::string& config);
// Whether a file that rank 0 makes near `directory` shows on every host.
void check_shared(Findings& findings, Communicator& world, const std::string& directory);
// How far the hosts' clocks are apart.
void check_clocks(Findings& findings, Communicator& world, const std::vector<std::string>& hosts);
// Ranks that compute slower than the others. Where ranks wait for cores it says nothing.
void check_stragglers(Findings& findings, Communicator& world,
                      const std::vector<std::string>& hosts, bool crowded);
// Every pair of hosts, one after another: round trip and bandwidth against the interface's and
// against the other pairs'.
void check_links(Findings& findings, Communicator& world, const std::vector<std::string>& hosts);
// All-reduce on each kind of group of the mesh, on `device`.
void check_groups(Findings& findings, const ProcessMesh& mesh, Device& device);

}  // namespace trireme::doctor
