// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/timing/comm_stats.h"

namespace trireme {

std::string_view name_of(Verb verb) {
  constexpr std::array<std::string_view, verb_count> names = {
      "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "send", "recv"};
  return names[static_cast<std::size_t>(verb)];
}

CommStats CommCounters::read() const {
  CommStats stats;
  for (std::size_t i = 0; i < verb_count; ++i) {
    stats.verbs[i].calls = counters_[i].calls.load(std::memory_order_relaxed);
    stats.verbs[i].bytes = counters_[i].bytes.load(std::memory_order_relaxed);
  }
  stats.seconds = static_cast<double>(nanoseconds_.load(std::memory_order_relaxed)) * 1e-9;
  stats.waiting_seconds = static_cast<double>(waiting_.load(std::memory_order_relaxed)) * 1e-9;
  return stats;
}

}  // namespace trireme
