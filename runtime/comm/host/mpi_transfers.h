// SPDX-License-Identifier: Apache-2.0
// Private to this module: messages over MPI.
#pragma once

#include <vector>

#include "runtime/comm/host/mpi_check.h"
#include "runtime/comm/host/transfers.h"

namespace trireme {

class MpiTransfers final : public Transfers {
 public:
  // Takes ownership of `comm`.
  explicit MpiTransfers(MPI_Comm comm);
  ~MpiTransfers() override;

  // Splits messages above 1 GiB, because MPI counts are ints. Both sides split alike.
  void send(const std::byte* data, std::size_t bytes, int to, MessageTag tag) override;
  void receive(std::byte* data, std::size_t bytes, int from, MessageTag tag) override;
  void broadcast(std::byte* data, std::size_t bytes, int root) override;
  void barrier() override;
  // Must poll: Open MPI moves data only inside calls.
  std::chrono::nanoseconds wait_all() override;
  [[nodiscard]] bool receive_note(std::byte* data, std::size_t bytes) override;
  [[nodiscard]] std::unique_ptr<Transfers> duplicate() override;
  [[nodiscard]] std::unique_ptr<Transfers> split(int color, int key) override;

 private:
  MPI_Request* add();

  MPI_Comm comm_;
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace trireme
