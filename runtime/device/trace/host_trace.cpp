// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/trace/host_trace.h"

#include <algorithm>
#include <array>

namespace trireme {
namespace {

struct Place {
  HostTraceEntry entry;
  std::atomic<bool> written = false;
};

// Global and never freed, so a late thread writes into valid memory. Unused pages cost nothing.
std::array<Place, HostTrace::capacity> places;
std::atomic<std::size_t> taken = 0;
std::atomic<int> threads = 0;

struct {
  std::string_view what;
  int chunk = -1, micro_batch = -1;
  std::int64_t since = 0;
} activity;  // of the training thread

int thread_number() noexcept {
  thread_local const int number = threads.fetch_add(1, std::memory_order_relaxed);
  return number;
}

void end_activity() noexcept {
  if (!activity.what.empty())
    HostTrace::add(HostTraceKind::activity, activity.what, activity.since, TraceClock::now(),
                   activity.chunk, activity.micro_batch);
  activity = {};
}

}  // namespace

void HostTrace::start() noexcept {
  const std::size_t used = std::min(taken.load(), capacity);
  for (std::size_t i = 0; i < used; ++i)
    places[i].written = false;
  taken = 0;
  activity = {};
  on_ = true;
}

void HostTrace::stop() noexcept {
  if (on()) end_activity();
  on_ = false;
}

void HostTrace::add(HostTraceKind kind, std::string_view name, std::int64_t begin, std::int64_t end,
                    std::int64_t first, std::int64_t second) noexcept {
  const std::size_t at = taken.fetch_add(1, std::memory_order_relaxed);
  if (at >= capacity) return;
  places[at].entry = {kind, name, thread_number(), begin, end, {first, second}};
  places[at].written.store(true, std::memory_order_release);
}

void HostTrace::set_activity(std::string_view what, int chunk, int micro_batch) noexcept {
  if (!on()) return;
  end_activity();
  activity = {what, chunk, micro_batch, TraceClock::now()};
}

HostTrace::Entries HostTrace::entries() {
  Entries all;
  const std::size_t noted = taken.load();
  for (std::size_t i = 0; i < std::min(noted, capacity); ++i) {
    if (places[i].written.load(std::memory_order_acquire)) all.entries.push_back(places[i].entry);
  }
  all.lost = noted - std::min(noted, capacity);
  return all;
}

}  // namespace trireme
