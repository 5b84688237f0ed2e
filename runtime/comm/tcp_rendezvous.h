// SPDX-License-Identifier: Apache-2.0
// Private to this room: how processes that no MPI launcher started find each other: by the
// variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as PyTorch's launchers and Kubernetes
// operators set them. Rank 0 listens at the master's address and tells everybody where the others
// are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/file.h"

namespace trireme {

struct TcpPlace {
  int rank = 0;
  int size = 1;
  std::string address;
  int port = 29500;
};

// Of the environment; empty where WORLD_SIZE is not set or 1. Raises ExitCode::config for a
// variable that is missing or no number.
[[nodiscard]] std::optional<TcpPlace> tcp_place();

// A connected socket to every other rank, by rank. Raises ExitCode::communication when they are not
// all there within a minute, naming who is missing or the address that does not answer.
[[nodiscard]] std::vector<FileDescriptor> tcp_connect_all(const TcpPlace& place);

}  // namespace trireme
