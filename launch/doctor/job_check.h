// SPDX-License-Identifier: Apache-2.0
// What only all ranks together can find out. Collective over the world; findings about the job as a
// whole are rank 0's.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launch/doctor/finding.h"
#include "launch/engine/agreement/core_sharing.h"
#include "runtime/comm/process_mesh.h"
#include "runtime/config/config.h"
#include "runtime/device/gpu_facts.h"
#include "runtime/plan/hardware.h"

namespace trireme::doctor {

// Whether every rank runs the same program with the same config.
void check_sameness(Findings& findings, Communicator& world, const std::string& config);
// Whether a file that rank 0 makes near `directory` shows on every host.
void check_shared(Findings& findings, Communicator& world, const std::string& directory);
// How far the hosts' clocks are apart.
void check_clocks(Findings& findings, Communicator& world, const std::vector<std::string>& hosts);
// Ranks that have to share cores. Not collective: `crowd` is most_crowded(world).
void check_cores(Findings& findings, const CoreCrowd& crowd, Communicator& world);
// What other programs use of every host's cores, while all ranks sleep half a second.
void check_load(Findings& findings, Communicator& world);
// Ranks that compute slower than the others. Where ranks share cores it says nothing.
void check_stragglers(Findings& findings, Communicator& world,
                      const std::vector<std::string>& hosts, const CoreCrowd& crowd);
// What all ranks on the host of `rank` will hold by the plan of a resolved config that computes on
// the CPU, against that host's memory. Not collective.
void check_planned_memory(Findings& findings, const Config& config, int rank,
                          const std::vector<std::string>& hosts);
// Every pair of hosts, one after another: round trip and bandwidth against the interface's and
// against the other pairs'.
void check_links(Findings& findings, Communicator& world, const std::vector<std::string>& hosts);
// All-reduce on each kind of group of the mesh, on `device`: groups of a kind against each other,
// and against what `hardware` (null: not known) promises.
void check_groups(Findings& findings, const ProcessMesh& mesh, Device& device,
                  const std::vector<std::string>& hosts, const plan::Hardware* hardware);
// Whether `path` of the config's `key` is on every host or on none.
void check_data_on_hosts(Findings& findings, Communicator& world, const std::string& key,
                         const std::string& path);
// What `gpus` (one text per rank: the type of the GPU that it uses, or nothing) says about the job.
void compare_gpus(Findings& findings, std::span<const std::string> gpus,
                  std::span<const std::string> hosts);
// The type of the GPU that a rank uses; empty where there is none.
[[nodiscard]] std::string gpu_of_rank(const CudaFacts& facts, int local_rank);

}  // namespace trireme::doctor
