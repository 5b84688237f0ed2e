// SPDX-License-Identifier: Apache-2.0
// Checks that need all ranks. Collective over the world; rank 0 holds findings about the whole job.
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
// Whether a file that rank 0 creates near `directory` is visible on every host.
void check_shared(Findings& findings, Communicator& world, const std::string& directory);
// Offsets between the hosts' clocks.
void check_clocks(Findings& findings, Communicator& world, const std::vector<std::string>& hosts);
// Ranks that share cores. Not collective: `crowd` is most_crowded(world).
void check_cores(Findings& findings, const CoreCrowd& crowd, Communicator& world);
// Other programs' use of every host's cores, while all ranks sleep half a second. Returns on rank 0
// whether it disturbs measurements.
bool check_load(Findings& findings, Communicator& world);
// Ranks that compute slower than others. No finding if ranks share cores.
void check_stragglers(Findings& findings, Communicator& world,
                      const std::vector<std::string>& hosts, const CoreCrowd& crowd);
// Planned memory of all ranks on the host of `rank`, and of a rank on its GPU, compared with what
// is there. Not collective.
void check_planned_memory(Findings& findings, const Config& config, int rank,
                          const std::vector<std::string>& hosts, const CudaFacts& facts);
// Ranks that NCCL refuses beside each other.
void check_slices(Findings& findings, Communicator& world, const GpuFacts& own, bool may_share,
                  const std::vector<std::string>& hosts);
// Each pair of hosts in turn: round trip and bandwidth, compared with the interface and the other
// pairs. `busy`: other programs may be the cause.
void check_links(Findings& findings, Communicator& world, const std::vector<std::string>& hosts,
                 bool busy);
// All-reduce on each kind of group of the mesh, on `device`: groups of a kind compared with each
// other and with `hardware` (null: unknown).
void check_groups(Findings& findings, const ProcessMesh& mesh, Device& device,
                  const std::vector<std::string>& hosts, const plan::Hardware* hardware);
// Whether `path` of the config's `key` is on every host or on none.
void check_data_on_hosts(Findings& findings, Communicator& world, const std::string& key,
                         const std::string& path);
// Findings from `gpus` (per rank: the type of its GPU, or nothing) about the job.
void compare_gpus(Findings& findings, std::span<const std::string> gpus,
                  std::span<const std::string> hosts);
// A rank's GPU, and its type; empty if there is none.
[[nodiscard]] GpuFacts gpu_facts_of_rank(const CudaFacts& facts, int local_rank);
[[nodiscard]] std::string type_of(const GpuFacts& gpu);

struct NetworkInterface {
  std::string name;
  int megabits = 0;  // per second, from the driver; 0: unknown
};

// Those that are up with an IPv4 address, without loopback.
[[nodiscard]] std::vector<NetworkInterface> network_interfaces();

}  // namespace trireme::doctor
