// SPDX-License-Identifier: Apache-2.0
// Private to this room: what a process that no MPI launcher started knows of its job, from the
// variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as PyTorch's launchers and Kubernetes
// operators set them, and the secret of the job (tcp_secret.h).
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
  // Of TRIREME_JOB_ID, TORCHELASTIC_RUN_ID or SLURM_JOB_ID, the first that is set: keeps jobs apart
  // that meet at one port with one secret.
  std::uint64_t job = 0;
  double patience_seconds = 0;  // for all others to come; 0: for ever
};

// Of the environment; empty where WORLD_SIZE is not set or 1. Raises ExitCode::config for a
// variable that is missing or no number, and for a bad secret.
[[nodiscard]] std::optional<TcpPlace> tcp_place();

// how processes that no MPI launcher started find each other. Rank 0 listens
// at the master's address and there only, and tells everybody where the others are; each connection
// begins with a proof of the job's secret (tcp_handshake.h).

// A connected socket to every other rank, by rank; it does not block. Raises ExitCode::config where
// other hosts could connect and there is no secret; ExitCode::communication when the ranks are not
// all there in time, naming who is missing or the address that does not answer.
[[nodiscard]] std::vector<FileDescriptor> tcp_connect_all(const TcpPlace& place);

}  // namespace trireme
