// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/mpi_transfers.h"

#include <algorithm>
#include <cstddef>

#include "runtime/comm/backoff.h"

namespace trireme {
namespace {

constexpr std::size_t piece_bytes = std::size_t{1} << 30;

template <typename Byte, typename Action>
void in_pieces(Byte* data, std::size_t bytes, Action action) {
  while (bytes > 0) {
    const std::size_t piece = std::min(bytes, piece_bytes);
    action(data, static_cast<int>(piece));
    data += piece;
    bytes -= piece;
  }
}

}  // namespace

MpiTransfers::MpiTransfers(int ranks) {
  const auto usual = static_cast<std::size_t>(64 + 4 * ranks);
  requests_.reserve(usual);
  statuses_.resize(usual);
}

MPI_Request* MpiTransfers::add() {
  requests_.push_back(MPI_REQUEST_NULL);
  return &requests_.back();
}

void MpiTransfers::send(MPI_Comm comm, const std::byte* data, std::size_t bytes, int to,
                        MessageTag tag) {
  in_pieces(data, bytes, [&](const std::byte* piece, int size) {
    TRIREME_MPI(MPI_Isend(piece, size, MPI_BYTE, to, static_cast<int>(tag), comm, add()));
  });
}

void MpiTransfers::receive(MPI_Comm comm, std::byte* data, std::size_t bytes, int from,
                           MessageTag tag) {
  in_pieces(data, bytes, [&](std::byte* piece, int size) {
    TRIREME_MPI(MPI_Irecv(piece, size, MPI_BYTE, from, static_cast<int>(tag), comm, add()));
  });
}

void MpiTransfers::broadcast(MPI_Comm comm, std::byte* data, std::size_t bytes, int root) {
  in_pieces(data, bytes, [&](std::byte* piece, int size) {
    TRIREME_MPI(MPI_Ibcast(piece, size, MPI_BYTE, root, comm, add()));
  });
}

void MpiTransfers::barrier(MPI_Comm comm) {
  TRIREME_MPI(MPI_Ibarrier(comm, add()));
}

void MpiTransfers::wait_all() {
  if (requests_.empty()) return;
  statuses_.resize(std::max(statuses_.size(), requests_.size()));
  Backoff backoff;
  for (;;) {
    int all_done = 0;
    const int code = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all_done,
                                 statuses_.data());
    if (code == MPI_ERR_IN_STATUS) {
      for (std::size_t i = 0; i < requests_.size(); ++i) {
        if (statuses_[i].MPI_ERROR != MPI_ERR_PENDING) {
          detail::check_mpi(statuses_[i].MPI_ERROR, "MPI_Testall");
        }
      }
    }
    detail::check_mpi(code, "MPI_Testall");
    if (all_done != 0) break;
    backoff.pause();
  }
  requests_.clear();
}

}  // namespace trireme
