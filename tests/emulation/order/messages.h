// SPDX-License-Identifier: Apache-2.0
// Clocks sent along with the data of emulated NCCL calls, to order work across ranks: the answer to
// a message follows the message's departure from its buffer.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstdint>
#include <deque>
#include <vector>

namespace trireme::emulated::order {

// For one call. Does nothing unless the order is checked.
class Messages {
 public:
  // `only_sends`: receiving the call's data proves its end. For other calls only the work before it
  // is ordered.
  explicit Messages(bool only_sends) : only_sends_(only_sends) {}

  // Beside a message of this tag.
  void send(MPI_Comm comm, int to, int tag, std::vector<MPI_Request>& requests);
  void receive(MPI_Comm comm, int from, int tag, std::vector<MPI_Request>& requests);
  // Call it once all have arrived.
  void merge();

 private:
  bool only_sends_;
  std::deque<std::vector<std::uint32_t>> sent_, received_;
};

}  // namespace trireme::emulated::order
