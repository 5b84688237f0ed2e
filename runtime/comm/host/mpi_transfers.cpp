// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/host/mpi_transfers.h"

#include <algorithm>
#include <cstddef>

#include "runtime/comm/host/backoff.h"

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

int rank_in(MPI_Comm comm) {
  int rank = 0;
  TRIREME_MPI(MPI_Comm_rank(comm, &rank));
  return rank;
}

int size_of_comm(MPI_Comm comm) {
  int size = 0;
  TRIREME_MPI(MPI_Comm_size(comm, &size));
  return size;
}

}  // namespace

MpiTransfers::MpiTransfers(MPI_Comm comm)
    : Transfers(rank_in(comm), size_of_comm(comm)), comm_(comm) {
  TRIREME_MPI(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
  const auto usual = static_cast<std::size_t>(64 + 4 * size());
  requests_.reserve(usual);
  statuses_.resize(usual);
}

MpiTransfers::~MpiTransfers() {
  if (!abandoned() && detail::mpi_is_up())
    MPI_Comm_free(&comm_);  // unchecked: a destructor, and it has no consequence
}

MPI_Request* MpiTransfers::add() {
  requests_.push_back(MPI_REQUEST_NULL);
  return &requests_.back();
}

void MpiTransfers::send(const std::byte* data, std::size_t bytes, int to, MessageTag tag) {
  in_pieces(data, bytes, [&](const std::byte* piece, int size) {
    TRIREME_MPI(MPI_Isend(piece, size, MPI_BYTE, to, static_cast<int>(tag), comm_, add()));
  });
}

void MpiTransfers::receive(std::byte* data, std::size_t bytes, int from, MessageTag tag) {
  in_pieces(data, bytes, [&](std::byte* piece, int size) {
    TRIREME_MPI(MPI_Irecv(piece, size, MPI_BYTE, from, static_cast<int>(tag), comm_, add()));
  });
}

void MpiTransfers::broadcast(std::byte* data, std::size_t bytes, int root) {
  in_pieces(data, bytes, [&](std::byte* piece, int size) {
    TRIREME_MPI(MPI_Ibcast(piece, size, MPI_BYTE, root, comm_, add()));
  });
}

void MpiTransfers::barrier() {
  TRIREME_MPI(MPI_Ibarrier(comm_, add()));
}

bool MpiTransfers::receive_note(std::byte* data, std::size_t bytes) {
  constexpr int tag = static_cast<int>(MessageTag::note);
  int arrived = 0;
  MPI_Status status;
  TRIREME_MPI(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_, &arrived, &status));
  if (arrived == 0) return false;
  TRIREME_MPI(MPI_Recv(data, static_cast<int>(bytes), MPI_BYTE, status.MPI_SOURCE, tag, comm_,
                       MPI_STATUS_IGNORE));
  return true;
}

std::unique_ptr<Transfers> MpiTransfers::duplicate() {
  MPI_Comm copy = MPI_COMM_NULL;
  TRIREME_MPI(MPI_Comm_dup(comm_, &copy));
  return std::make_unique<MpiTransfers>(copy);
}

std::unique_ptr<Transfers> MpiTransfers::split(int color, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  TRIREME_MPI(MPI_Comm_split(comm_, color, key, &part));
  return std::make_unique<MpiTransfers>(part);
}

std::chrono::nanoseconds MpiTransfers::wait_all() {
  if (requests_.empty()) return {};
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
  return backoff.waited();
}

}  // namespace trireme
