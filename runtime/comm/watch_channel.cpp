// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/watch_channel.h"

#include <exception>
#include <type_traits>

namespace trireme {

static_assert(std::is_trivially_copyable_v<WatchNote>, "it travels as bytes");

WatchChannel::WatchChannel() {
  if (!detail::mpi_is_up()) return;  // a world of one
  TRIREME_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
  TRIREME_MPI(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
  TRIREME_MPI(MPI_Comm_rank(comm_, &rank_));
  TRIREME_MPI(MPI_Comm_size(comm_, &size_));
}

WatchChannel::~WatchChannel() {
  // With notes on their way the job is ending; a rank that unwinds does not count on its peers.
  if (comm_ != MPI_COMM_NULL && outgoing_.empty() && std::uncaught_exceptions() == 0 &&
      detail::mpi_is_up()) {
    MPI_Comm_free(&comm_);  // unchecked: a destructor, and nothing follows from it
  }
}

void WatchChannel::send(int to, const WatchNote& note) {
  Outgoing& out = outgoing_.emplace_back();
  out.note = note;
  TRIREME_MPI(MPI_Isend(&out.note, sizeof(WatchNote), MPI_BYTE, to, 0, comm_, &out.request));
}

bool WatchChannel::receive(WatchNote& note) {
  if (comm_ == MPI_COMM_NULL) return false;
  int arrived = 0;
  MPI_Status status;
  TRIREME_MPI(MPI_Iprobe(MPI_ANY_SOURCE, 0, comm_, &arrived, &status));
  if (arrived == 0) return false;
  TRIREME_MPI(
      MPI_Recv(&note, sizeof(WatchNote), MPI_BYTE, status.MPI_SOURCE, 0, comm_, MPI_STATUS_IGNORE));
  return true;
}

}  // namespace trireme
