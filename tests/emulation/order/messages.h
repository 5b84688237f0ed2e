// SPDX-License-Identifier: Apache-2.0
// Clocks that travel beside the data of emulated NCCL calls, so that what one rank does can come
// after what another did: the answer to a message after the message has left its buffer.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdint>
#include <deque>
#include <vector>

namespace trireme::emulated::order {

// Of one call. Unless the order is checked, nothing happens.
class Messages {
 public:
  // `only_sends`: who has the call's data knows that it is over. Of any other, only what came
  // before it.
  explicit Messages(bool only_sends) : only_sends_(only_sends) {}

  // Beside a message of this tag.
  void send(MPI_Comm comm, int to, int tag, std::vector<MPI_Request>& requests);
  void receive(MPI_Comm comm, int from, int tag, std::vector<MPI_Request>& requests);
  // Once all have come.
  void merge();

 private:
  bool only_sends_;
  std::deque<std::vector<std::uint32_t>> sent_, received_;
};

}  // namespace trireme::emulated::order
