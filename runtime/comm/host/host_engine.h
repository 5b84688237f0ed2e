// SPDX-License-Identifier: Apache-2.0
// Private to this room: the collectives over the messages of one group, as run by the thread of a
// stream. Reductions are ours, not MPI's: every rank gathers its slice from all peers, combines
// them in the order that reduce.h fixes, and hands the result round. That moves as much as a ring,
// and the bits depend neither on the library's choice of algorithm nor on how a tensor was cut into
// calls.
#pragma once

#include <chrono>
#include <utility>
#include <vector>

#include "runtime/comm/call.h"
#include "runtime/comm/host/transfers.h"

namespace trireme {

class HostEngine {
 public:
  explicit HostEngine(std::unique_ptr<Transfers> transfers);

  [[nodiscard]] Transfers& transfers() const { return *transfers_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  // Posts a call's messages. Several calls may be started before finish(), which completes them
  // all.
  void start(const Call& call);
  void finish();
  // How long finish() has waited for messages since the last call of this.
  [[nodiscard]] std::chrono::nanoseconds take_waited() { return std::exchange(waited_, {}); }

 private:
  // A reduction in flight: elements [begin, begin + count) of its call, cut into one slice per
  // rank.
  struct Reduction {
    Call call;
    std::int64_t begin = 0;
    std::int64_t count = 0;
    std::int64_t slice =
        0;               // elements of every slice but the last ones, which may be shorter or empty
    bool whole = false;  // small: everybody gets everything at once and combines it itself
    std::vector<std::byte> scratch;
  };

  void exchange(const Call& call);
  void gather(const Call& call);
  void add_reduction(const Call& call);
  void post_slices(Reduction& reduction);
  void combine(Reduction& reduction);
  void post_results(const Reduction& reduction);
  bool advance(Reduction& reduction);
  [[nodiscard]] int peer(int step) const { return (rank_ + step) % size_; }

  std::unique_ptr<Transfers> transfers_;
  int rank_;
  int size_;
  std::vector<Reduction>
      reductions_;  // the first `active_` are in flight; the rest keep their scratch memory
  std::size_t active_ = 0;
  std::vector<const std::byte*> inputs_;
  std::chrono::nanoseconds waited_{};
};

}  // namespace trireme
