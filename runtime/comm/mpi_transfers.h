// SPDX-License-Identifier: Apache-2.0
// Private to this room: non-blocking MPI messages in flight and the wait for them.
#pragma once

#include <vector>

#include "runtime/comm/mpi_check.h"

namespace trireme {

// User messages and those that collectives are made of never meet.
enum class MessageTag : int { user = 1, collective = 2 };

class MpiTransfers {
 public:
  explicit MpiTransfers(int ranks);

  // Messages above 1 GiB travel in pieces, for MPI counts are ints. Both sides cut alike.
  void send(MPI_Comm comm, const std::byte* data, std::size_t bytes, int to, MessageTag tag);
  void receive(MPI_Comm comm, std::byte* data, std::size_t bytes, int from, MessageTag tag);
  void broadcast(MPI_Comm comm, std::byte* data, std::size_t bytes, int root);
  void barrier(MPI_Comm comm);

  // Until all are done. Polls, for Open MPI moves data only inside calls, but sleeps in between
  // (see README.md).
  void wait_all();

 private:
  MPI_Request* add();

  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace trireme
