// SPDX-License-Identifier: Apache-2.0
// What one rank sees of its host. No check here talks to another rank.
#pragma once

#include <filesystem>
#include <string>

#include "launch/doctor/finding.h"
#include "runtime/comm/mpi.h"
#include "runtime/config/config.h"

namespace trireme::doctor {

// CPU, cores, memory, shared memory, NUMA nodes, open files.
void check_host(Findings& findings, const MpiEnvironment& mpi, const Config& config);
// The launcher, MPI, and the versions of every library as compiled and as found.
void check_libraries(Findings& findings, const MpiEnvironment& mpi);
// Driver, GPUs and how they are linked. `needed`: the config asks for them.
void check_gpus(Findings& findings, const MpiEnvironment& mpi, bool needed);
// Interfaces and what Open MPI and NCCL were told about them. `hosts`: of the job.
void check_network(Findings& findings, int hosts);
// `path`, or the nearest directory above it that exists.
[[nodiscard]] std::filesystem::path nearest_directory(const std::string& path);
// The file system under `path`, by a short test of writing and reading in the nearest directory
// that exists.
void check_storage(Findings& findings, const std::string& subject, const std::string& path);

}  // namespace trireme::doctor
