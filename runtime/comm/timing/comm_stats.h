// SPDX-License-Identifier: Apache-2.0
// Counts, bytes and durations of a communicator's calls.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/comm/call.h"

namespace trireme {

// `bytes` is the size of the whole logical tensor of the calls: all_reduce and broadcast count the
// tensor, reduce_scatter and all_to_all their input, all_gather its output, send and recv the
// message.
struct VerbStats {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const VerbStats&, const VerbStats&) = default;
};

struct CommStats {
  std::array<VerbStats, verb_count> verbs{};
  // Time that the stream spent in finished calls, waits for peers included. Zero for asynchronous
  // back ends.
  double seconds = 0;
  // The part of `seconds` spent waiting for peers: lowest on the rank that others wait for.
  double waiting_seconds = 0;

  [[nodiscard]] const VerbStats& operator[](Verb verb) const {
    return verbs[static_cast<std::size_t>(verb)];
  }
};

// The live counters: calls are counted when enqueued, time when they run.
class CommCounters {
 public:
  void add_call(Verb verb, std::size_t bytes) {
    Counter& counter = counters_[static_cast<std::size_t>(verb)];
    counter.calls.fetch_add(1, std::memory_order_relaxed);
    counter.bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  void add_nanoseconds(std::uint64_t count) {
    nanoseconds_.fetch_add(count, std::memory_order_relaxed);
  }
  void add_waiting(std::uint64_t nanoseconds) {
    waiting_.fetch_add(nanoseconds, std::memory_order_relaxed);
  }
  [[nodiscard]] CommStats read() const;

 private:
  struct Counter {
    std::atomic<std::uint64_t> calls = 0;
    std::atomic<std::uint64_t> bytes = 0;
  };
  std::array<Counter, verb_count> counters_;
  std::atomic<std::uint64_t> nanoseconds_ = 0;
  std::atomic<std::uint64_t> waiting_ = 0;
};

// The share of a collective's tensor that crosses the links.

// Whether the call scatters slices of the tensor to the ranks or gathers them.
inline bool cuts_tensor(Verb verb) {
  return verb == Verb::reduce_scatter || verb == Verb::all_gather || verb == Verb::all_to_all;
}

// Bytes that each of `ranks` sends (recv: receives) per byte of the tensor, in a ring: the ratio of
// bus bandwidth to algorithm bandwidth of nccl-tests.
inline double bus_factor(Verb verb, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (verb == Verb::all_reduce) return 2 * others;
  return cuts_tensor(verb) ? others : 1;
}

}  // namespace trireme
