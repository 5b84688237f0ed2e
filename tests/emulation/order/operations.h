// SPDX-License-Identifier: Apache-2.0
// Operations on streams, and the hooks of streams.cpp, which make work advance the clocks as it
// runs. Used only if on().
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

// One call of the host; a graph runs it at every replay.
struct Operation {
  const void* kernel = nullptr;  // null: named by the calls
  Frames asked;
  std::string range;  // the profiler's ranges around it
};

// One run of an operation. Accesses store its number.
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

// A host operation after which none may follow.
[[nodiscard]] ExecutedId last_of_all();

// The device work that this thread runs; null outside of it.
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

// For runtime calls, with return addresses as call sites: the calling host thread waited for a
// stream or an event; an event was recorded with a new mark (false: the record is dropped).
void host_waited(const Lane& lane, const void* within);
void host_waited(const Mark& mark, const void* within);
[[nodiscard]] bool renew_mark(std::shared_ptr<Mark>& mark, const void* within);

// A graph's streams in the order of joining; the first is the launch stream.
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
