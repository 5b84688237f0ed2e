// SPDX-License-Identifier: Apache-2.0
// Checks of one rank's host, without communication.
#pragma once

#include <filesystem>
#include <string>

#include "launch/doctor/finding.h"
#include "runtime/comm/mpi.h"
#include "runtime/config/config.h"

namespace trireme::doctor {

// CPU, cores, memory, shared memory, NUMA nodes, open files.
void check_host(Findings& findings, const MpiEnvironment& mpi, const Config& config);
// The launcher, MPI, and every library's version at compile time and run time.
void check_libraries(Findings& findings, const MpiEnvironment& mpi);
// Driver, GPUs and their links. `needed`: the config requires GPUs.
void check_gpus(Findings& findings, const MpiEnvironment& mpi, bool needed);
// Interfaces and their settings for Open MPI and NCCL. `hosts`: number in the job.
void check_network(Findings& findings, int hosts);
// `path`, or the nearest directory above it that exists.
[[nodiscard]] std::filesystem::path nearest_directory(const std::string& path);
// The file system of `path`, by a short write and read test in the nearest existing directory.
void check_storage(Findings& findings, const std::string& subject, const std::string& path);

}  // namespace trireme::doctor
