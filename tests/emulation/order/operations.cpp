// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/order/operations.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <limits>

namespace trireme::emulated::order {

constinit thread_local const Running* running = nullptr;

namespace {

constexpr std::size_t most_executed = std::size_t{1} << 27;
std::atomic<ExecutedId> last_executed = 0;
thread_local std::vector<std::string> ranges;
thread_local std::vector<PinnedUse> next_uses;

// Pages exist once written.
Executed* table() {
  static auto* const base =
      static_cast<Executed*>(mmap(nullptr, most_executed * sizeof(Executed), PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  return base;
}

// Never deleted: memory remembers it.
const Operation* describe(const void* kernel) {
  auto* const operation = new Operation{.kernel = kernel, .asked = Frames::here(), .range = {}};
  for (const std::string& range : ranges)
    operation->range += (operation->range.empty() ? "" : ", ") + range;
  return operation;
}

ExecutedId add(const Executed& what) {
  const ExecutedId id = ++last_executed;
  if (id >= most_executed) {
    std::fprintf(stderr, "CUDA emulator: more operations than the order of streams is kept for\n");
    std::abort();
  }
  table()[id] = what;
  return id;
}

ExecutedId begin(Lane& lane, const Operation& operation) {
  lane.clock.set(lane.index(), ++lane.ticks);
  return add({&operation, lane.ticks, static_cast<std::uint32_t>(lane.index())});
}

void run(Lane& lane, const Operation& operation, const Work& work) {
  const Running now{begin(lane, operation), &lane};
  running = &now;
  work();
  running = nullptr;
}

// A record counts only if a wait learned something from it.
void note(bool told, const Mark& mark, Site& waiting) {
  if (!told) return;
  ++waiting.told;
  if (mark.made != nullptr) ++mark.made->told;
}

}  // namespace

ExecutedId last_of_all() {
  return add({describe(nullptr), std::numeric_limits<std::uint32_t>::max(), 0});
}

const Executed& executed(ExecutedId id) {
  return table()[id];
}

void uses_pinned(const void* data, std::size_t bytes, bool writes) {
  if (holds_pinned_of_order(data)) next_uses.push_back({data, bytes, writes});
}

Work operation(Lane& lane, Work work, const void* kernel) {
  const Operation* const what = describe(kernel);
  const auto flight = close_pinned(lane, *what, std::exchange(next_uses, {}));
  return [&lane, what, flight, host = host_clock(), work = std::move(work)] {
    lane.clock.merge(host);
    if (flight != nullptr) flight->tick = lane.ticks + 1;
    run(lane, *what, work);
  };
}

Work record(Lane& lane, std::shared_ptr<Mark> mark, Work work) {
  return [&lane, mark = std::move(mark), host = host_clock(), work = std::move(work)] {
    work();
    lane.clock.merge(host);
    mark->clock = lane.clock;
  };
}

Work wait(Lane& lane, std::shared_ptr<Mark> mark, Site& site, Work work) {
  return [&lane, mark = std::move(mark), &site, work = std::move(work)] {
    work();
    note(lane.clock.merge(mark->clock), *mark, site);
  };
}

void host_waited(const Lane& lane, const void* within) {
  Site& site = site_of(Call::stream_synchronize, within);
  if (!site.dropped && host_waited(lane.clock)) ++site.told;
}

void host_waited(const Mark& mark, const void* within) {
  Site& site = site_of(Call::event_synchronize, within);
  if (!site.dropped) note(host_waited(mark.clock), mark, site);
}

bool renew_mark(std::shared_ptr<Mark>& mark, const void* within) {
  Site& site = site_of(Call::record, within);
  if (!site.dropped) mark = std::make_shared<Mark>(Mark{.clock = {}, .made = &site});
  return !site.dropped;
}

std::size_t Branches::number_of(const void* stream) {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i] == stream) return i;
  }
  streams_.push_back(stream);
  return streams_.size() - 1;
}

// A side branch starts empty: work before the launch reaches it by the fork.
Work Branches::launch(Lane& lane, std::shared_ptr<Branches> branches, Work work) {
  const Operation* const what = describe(nullptr);
  const auto flight = close_pinned(lane, *what, branches->pinned_);
  return [&lane, branches, what, flight, host = host_clock(), work = std::move(work)] {
    lane.clock.merge(host);
    static_cast<void>(begin(lane, *what));
    if (flight != nullptr) flight->tick = lane.ticks;
    branches->bound.clear();
    for (std::size_t i = 0; i < branches->streams_.size(); ++i) {
      branches->bound.push_back(&lane.branch(i));
      if (i > 0) branches->bound.back()->clock = Clock();
    }
    work();
    for (const Lane* const branch : branches->bound)
      lane.clock.merge(branch->clock);
  };
}

Work operation(const std::shared_ptr<Branches>& branches, const void* stream, Work work,
               const void* kernel) {
  for (const PinnedUse& use : std::exchange(next_uses, {}))
    branches->use(use);
  return [branches = branches.get(), number = branches->number_of(stream), what = describe(kernel),
          work = std::move(work)] { run(*branches->bound[number], *what, work); };
}

Work record(const std::shared_ptr<Branches>& branches, const void* stream,
            std::shared_ptr<Mark> mark, Work work) {
  return [branches = branches.get(), number = branches->number_of(stream), mark = std::move(mark),
          work = std::move(work)] {
    work();
    mark->clock = branches->bound[number]->clock;
  };
}

Work wait(const std::shared_ptr<Branches>& branches, const void* stream, std::shared_ptr<Mark> mark,
          Site& site) {
  return [branches = branches.get(), number = branches->number_of(stream), mark = std::move(mark),
          &site] { note(branches->bound[number]->clock.merge(mark->clock), *mark, site); };
}

void push_range(const char* name) {
  ranges.emplace_back(name);
}

void pop_range() {
  ranges.pop_back();
}

}  // namespace trireme::emulated::order
