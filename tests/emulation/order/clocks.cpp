// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/order/clocks.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "tests/emulation/order/accesses.h"
#include "tests/emulation/order/pinned.h"

namespace trireme::emulated::order {
namespace {

std::size_t number_of(std::initializer_list<const char*> names, std::size_t otherwise) {
  for (const char* const name : names) {
    if (const char* const value = std::getenv(name); value != nullptr)
      return std::strtoull(value, nullptr, 10);
  }
  return otherwise;
}

Clock& own_host_clock() {
  static thread_local Clock clock;
  return clock;
}

std::mutex hosts_mutex;
Clock& hosts_clock() {
  static auto* const clock = new Clock;
  return *clock;
}

std::mutex lanes_mutex;
std::vector<LaneOrigin> origins;

std::size_t enter(int branch_of) {
  const std::lock_guard lock(lanes_mutex);
  if (origins.size() == lanes_per_rank) {
    std::fprintf(
        stderr,
        "CUDA emulator: TRIREME_EMULATED_ORDER: a process may make %zu streams and branches "
        "of graphs (lanes_per_rank)\n",
        lanes_per_rank);
    std::abort();
  }
  origins.push_back({Frames::here(), branch_of});
  return origins.size() - 1;
}

bool wanted() {
  if (std::getenv("TRIREME_EMULATED_ORDER") == nullptr) return false;
  if (!kernels_observed) {
    std::fprintf(stderr,
                 "CUDA emulator: TRIREME_EMULATED_ORDER: this program's kernels are not seen\n");
    std::abort();
  }
  return true;
}

}  // namespace

bool on() {
  static const bool set = wanted();
  return set;
}

const Place& Place::get() {
  static const Place place{number_of({"OMPI_COMM_WORLD_RANK", "PMI_RANK"}, 0),
                           number_of({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}, 1)};
  return place;
}

bool Clock::merge(std::span<const std::uint32_t> other) {
  bool told = false;
  for (std::size_t i = 0; i < ticks_.size(); ++i) {
    told |= other[i] > ticks_[i];
    ticks_[i] = std::max(ticks_[i], other[i]);
  }
  return told;
}

bool Clock::holds(const Clock& other) const {
  for (std::size_t i = 0; i < ticks_.size(); ++i) {
    if (ticks_[i] < other.ticks_[i]) return false;
  }
  return true;
}

const Clock& host_clock() {
  return own_host_clock();
}

Clock all_hosts_clock() {
  const std::lock_guard lock(hosts_mutex);
  return hosts_clock();
}

bool host_waited(const Clock& clock) {
  const bool told = own_host_clock().merge(clock);
  {
    const std::lock_guard lock(hosts_mutex);
    hosts_clock().merge(clock);
  }
  if (told) open_waited_for(all_hosts_clock());
  return told;
}

Lane::Lane() : index_(enter(-1)) {}

Lane::Lane(std::size_t stream) : index_(enter(static_cast<int>(stream))) {}

Lane& Lane::branch(std::size_t number) {
  if (number == 0) return *this;
  while (branches_.size() < number)
    branches_.emplace_back(new Lane(index_));
  return *branches_[number - 1];
}

LaneOrigin lane_origin(std::size_t lane) {
  const std::lock_guard lock(lanes_mutex);
  return origins[lane];
}

}  // namespace trireme::emulated::order
