// SPDX-License-Identifier: Apache-2.0
// Private to this room: notes between the watchdogs of a job, in their own message group. Nothing
// here waits for another rank.
#pragma once

#include <list>
#include <memory>

#include "runtime/comm/host/transfers.h"
#include "runtime/comm/watchdog/watch_note.h"

namespace trireme {

class WatchChannel {
 public:
  WatchChannel();  // collective over the job
  ~WatchChannel();
  WatchChannel(const WatchChannel&) = delete;
  WatchChannel& operator=(const WatchChannel&) = delete;

  [[nodiscard]] int rank() const { return transfers_ ? transfers_->rank() : 0; }
  [[nodiscard]] int size() const { return transfers_ ? transfers_->size() : 1; }

  void send(int to, const WatchNote& note);
  // False if no note has arrived.
  [[nodiscard]] bool receive(WatchNote& note);

 private:
  std::unique_ptr<Transfers> transfers_;  // null in a job of one rank
  std::list<WatchNote> outgoing_;         // kept to the end: the job ends after its first notes
};

}  // namespace trireme
