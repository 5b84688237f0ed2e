// SPDX-License-Identifier: Apache-2.0
// Private to this room: how processes that no MPI launcher started find each other. Rank 0 listens
// at the master's address and there only, and tells everybody where the others are; each connection
// begins with a proof of the job's secret (tcp_handshake.h).
#pragma once

#include <vector>

#include "runtime/base/file.h"
#include "runtime/comm/host/tcp/tcp_place.h"

namespace trireme {

// A connected socket to every other rank, by rank; it does not block. Raises ExitCode::config where
// other hosts could connect and there is no secret; ExitCode::communication when the ranks are not
// all there in time, naming who is missing or the address that does not answer.
[[nodiscard]] std::vector<FileDescriptor> tcp_connect_all(const TcpPlace& place);

}  // namespace trireme
