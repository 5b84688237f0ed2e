// SPDX-License-Identifier: Apache-2.0
// What runs on streams, and the hooks of streams.cpp: each makes the work it is given move the
// clocks as it runs. Nothing here is called unless on().
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulation/order/clocks.h"
#include "tests/emulation/order/pinned.h"

namespace trireme::emulated::order {

using Work = std::function<void()>;

// What the host asked for, once; a graph runs it at every replay.
struct Operation {
  const void* kernel = nullptr;  // null: the calls say what it is
  Frames asked;
  std::string range;  // the profiler's ranges around it
};

// One run of an operation. Its number is what memory remembers of it.
struct Executed {
  const Operation* operation;
  std::uint32_t tick;
  std::uint32_t lane;
};
using ExecutedId = std::uint32_t;  // 0: none

[[nodiscard]] const Executed& executed(ExecutedId id);
[[nodiscard]] inline bool before(const Executed& earlier, const Clock& now) {
  return earlier.tick <= now.at(earlier.lane);
}

// An operation of the host that nothing comes after.
[[nodiscard]] ExecutedId last_of_all();

// What this thread runs of a device's work; null outside of it.
struct Running {
  ExecutedId id;
  Lane* lane;
};
extern constinit thread_local const Running* running;

// The next operation that this thread asks for also reads or writes page-locked memory.
void uses_pinned(const void* data, std::size_t bytes, bool writes);

// Of a stream.
[[nodiscard]] Work operation(Lane& lane, Work work, const void* kernel);
[[nodiscard]] Work record(Lane& lane, std::shared_ptr<Mark> mark, Work work);
[[nodiscard]] Work wait(Lane& lane, std::shared_ptr<Mark> mark, Site& site, Work work);

// Of the runtime's calls, whose return addresses tell their sites: the calling thread of the host
// has waited for a stream, for an event; an event's new record has a mark of its own (false: the
// record is dropped).
void host_waited(const Lane& lane, const void* within);
void host_waited(const Mark& mark, const void* within);
[[nodiscard]] bool renew_mark(std::shared_ptr<Mark>& mark, const void* within);

// A graph's streams, by their order of coming in; the first is the one it is launched on.
class Branches {
 public:
  [[nodiscard]] std::size_t number_of(const void* stream);
  void use(const PinnedUse& use) { pinned_.push_back(use); }
  // The whole graph as an operation of `lane`.
  [[nodiscard]] static Work launch(Lane& lane, std::shared_ptr<Branches> branches, Work work);

  std::vector<Lane*> bound;  // while it is launched

 private:
  std::vector<const void*> streams_;
  std::vector<PinnedUse> pinned_;
};

// The same within a capture.
[[nodiscard]] Work operation(const std::shared_ptr<Branches>& branches, const void* stream,
                             Work work, const void* kernel);
[[nodiscard]] Work record(const std::shared_ptr<Branches>& branches, const void* stream,
                          std::shared_ptr<Mark> mark, Work work);
[[nodiscard]] Work wait(const std::shared_ptr<Branches>& branches, const void* stream,
                        std::shared_ptr<Mark> mark, Site& site);

// The profiler's ranges of this thread.
void push_range(const char* name);
void pop_range();

}  // namespace trireme::emulated::order
