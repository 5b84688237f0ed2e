// SPDX-License-Identifier: Apache-2.0
// Private to this room: notes between the watchdogs of a job, on an MPI communicator of their own.
// Nothing here waits for another rank.
#pragma once

#include <list>

#include "runtime/comm/mpi_check.h"
#include "runtime/comm/watch_note.h"

namespace trireme {

class WatchChannel {
 public:
  WatchChannel();  // collective over the job
  ~WatchChannel();
  WatchChannel(const WatchChannel&) = delete;
  WatchChannel& operator=(const WatchChannel&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  void send(int to, const WatchNote& note);
  // False when no note has arrived.
  [[nodiscard]] bool receive(WatchNote& note);

 private:
  struct Outgoing {
    WatchNote note;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::list<Outgoing> outgoing_;  // kept to the end: the job ends after its first notes
};

}  // namespace trireme
