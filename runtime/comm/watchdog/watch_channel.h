// SPDX-License-Identifier: Apache-2.0
// Private to this module: notes between the watchdogs of a job, in their own message group. Nothing
// here waits for another rank.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>

#include "runtime/comm/call_record.h"
#include "runtime/comm/host/transfers.h"

namespace trireme {

// An ask makes its receiver write its dump and return the note as an answer.
struct WatchNote {
  enum class Kind : std::int32_t { ask, answer };
  enum class Verdict : std::int32_t {
    none,       // the ask was only for the dump
    waits_too,  // the receiver is in this call as well
    over,       // the receiver has finished this call
    differs,    // the receiver's call of this number differs
    late        // the receiver has not reached this call
  };
  Kind kind = Kind::ask;
  std::int32_t from = 0;    // rank in the job
  std::uint64_t group = 0;  // CallLog::group()
  CallRecord call;          // the call that the asking rank waits in
  std::int32_t asker = 0;   // rank in the group
  std::int32_t question = 0;
  std::int32_t has_call = 0;
  Verdict verdict = Verdict::none;
  std::array<char, 448> text{};  // what the answering rank does instead
};

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

// messages between watchdogs of different ranks after a deadline.

}  // namespace trireme
