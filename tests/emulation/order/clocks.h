// SPDX-License-Identifier: Apache-2.0
// Vector clocks. A lane is a stream, or a side branch of graphs launched on one; its tick is one
// operation. Clocks advance when work runs: a record stores the lane's clock in the event's mark, a
// wait merges the mark into the waiting lane, a message of an emulated NCCL call carries the
// sender's clock to the receiving lane. A host thread's clock has what it waited for; work that it
// enqueues starts after that. A query orders nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tests/emulation/order/frames.h"
#include "tests/emulation/order/sites.h"

namespace trireme::emulated::order {

// Whether this process is checked: TRIREME_EMULATED_ORDER is set.
[[nodiscard]] bool on();

struct Place {
  std::size_t rank = 0, ranks = 1;
  [[nodiscard]] static const Place& get();  // as mpirun tells
};

// Limit of streams and graph branches per process, for several engines in one test.
inline constexpr std::size_t lanes_per_rank = 128;

// A vector clock: ticks of every lane of every rank.
class Clock {
 public:
  Clock() : ticks_(Place::get().ranks * lanes_per_rank) {}
  // Whether there was something new.
  bool merge(std::span<const std::uint32_t> other);
  bool merge(const Clock& other) { return merge(other.ticks_); }
  [[nodiscard]] bool holds(const Clock& other) const;
  // Of this rank's lanes.
  [[nodiscard]] std::uint32_t at(std::size_t lane) const { return ticks_[own(lane)]; }
  void set(std::size_t lane, std::uint32_t tick) { ticks_[own(lane)] = tick; }
  [[nodiscard]] const std::vector<std::uint32_t>& ticks() const { return ticks_; }

 private:
  static std::size_t own(std::size_t lane) { return Place::get().rank * lanes_per_rank + lane; }
  std::vector<std::uint32_t> ticks_;
};

// The calling thread's clock.
[[nodiscard]] const Clock& host_clock();
// The merge of all host threads' clocks.
[[nodiscard]] Clock all_hosts_clock();
// The calling host thread has waited for `clock`; returns whether that added anything.
bool host_waited(const Clock& clock);

class Lane {
 public:
  Lane();
  Clock clock;              // of the work on it
  std::uint32_t ticks = 0;  // operations that have begun
  [[nodiscard]] std::size_t index() const { return index_; }
  // A branch of the graphs launched on this stream; 0: the stream itself.
  [[nodiscard]] Lane& branch(std::size_t number);

 private:
  explicit Lane(std::size_t stream);
  std::size_t index_;
  std::vector<std::unique_ptr<Lane>> branches_;
};

// Where a stream was created, for reports; -1: not a branch of a graph.
struct LaneOrigin {
  Frames made;
  int branch_of = -1;
};
[[nodiscard]] LaneOrigin lane_origin(std::size_t lane);

// One record of an event.
struct Mark {
  Clock clock;           // once the record has run
  Site* made = nullptr;  // call site
};

}  // namespace trireme::emulated::order
