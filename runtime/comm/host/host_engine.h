// SPDX-License-Identifier: Apache-2.0
// Private to this module: collectives over the messages of one group, run by a stream's thread. We
// reduce ourselves instead of through MPI: every rank gathers its slice from all peers, combines
// them in the order of reduce.h, and distributes the result. This moves as much data as a ring, and
// the bits depend neither on MPI's choice of algorithm nor on how a tensor was cut into calls.
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

  // Posts a call's messages. Several calls may start before finish(), which completes all of them.
  void start(const Call& call);
  void finish();
  // How long finish() has waited for messages since the last take_waited().
  [[nodiscard]] std::chrono::nanoseconds take_waited() { return std::exchange(waited_, {}); }

 private:
  // A reduction in flight: elements [begin, begin + count) of its call, cut into one slice per
  // rank.
  struct Reduction {
    Call call;
    std::int64_t begin = 0;
    std::int64_t count = 0;
    std::int64_t slice = 0;  // elements per slice; the last slices may be shorter or empty
    bool whole = false;  // small: every rank receives all inputs at once and combines them itself
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
