// SPDX-License-Identifier: Apache-2.0
// Private to this module: the job as seen by a process without an MPI launcher, from RANK,
// WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which PyTorch's launchers and Kubernetes operators set,
// and the job's secret (tcp_secret.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/comm/host/tcp/tcp_secret.h"

namespace trireme {

struct TcpPlace {
  int rank = 0;
  int size = 1;
  std::string address;
  int port = 29500;
  TcpSecret secret;
  // From the first that is set of TRIREME_JOB_ID, TORCHELASTIC_RUN_ID and SLURM_JOB_ID: separates
  // jobs that share a port and a secret.
  std::uint64_t job = 0;
  double patience_seconds = 0;  // wait for all other ranks; 0: for ever
};

// From the environment; empty if WORLD_SIZE is not set or 1. Raises ExitCode::config for a missing
// or non-numeric variable and for a bad secret.
[[nodiscard]] std::optional<TcpPlace> tcp_place();

// how processes that no MPI launcher started find each other. Rank 0 listens
// at the master's address and there only, and tells everybody where the others are; each connection
// begins with a proof of the job's secret (tcp_handshake.h).

// A connected socket to every other rank, by rank; it does not block. Raises ExitCode::config where
// other hosts could connect and there is no secret; ExitCode::communication when the ranks are not
// all there in time, naming who is missing or the address that does not answer.
[[nodiscard]] std::vector<FileDescriptor> tcp_connect_all(const TcpPlace& place);

}  // namespace trireme
