// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/timing/clock_offset.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>

#include "runtime/comm/comm_label.h"
#include "runtime/comm/host_stream.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/device/trace/trace_clock.h"

namespace trireme {
namespace {

// Computer clocks are within 100 ppm, so two of them drift apart by at most twice that.
constexpr double largest_drift = 500e-6;
constexpr std::int64_t for_all_ranks = 500'000'000;  // ns, if answers are slow

template <typename T>
Tensor bytes_of(std::span<T> values) {
  return {reinterpret_cast<std::byte*>(values.data()), DType::u8,
          Shape{static_cast<std::int64_t>(values.size_bytes())}};
}

// Ranks that share cores often answer late, so they are asked repeatedly.
struct Patience {
  static constexpr int least = 24, most = 2000;
  static constexpr std::int64_t quick_enough = 50'000;  // ns of a round trip
  std::int64_t most_nanoseconds = 0;                    // for one rank

  [[nodiscard]] bool asks_again(int asked, std::int64_t quickest, std::int64_t spent) const {
    if (asked < least) return true;
    return asked < most && quickest > quick_enough && spent < most_nanoseconds;
  }
};

ClockReading ask(Communicator& group, Stream& stream, int rank, const Patience& patience) {
  ClockReading best;
  const std::int64_t start = TraceClock::now();
  std::int64_t quickest = INT64_MAX, answer = 0, go_on = 1;
  for (int i = 0; patience.asks_again(i, quickest, TraceClock::now() - start); ++i) {
    const std::int64_t left = TraceClock::now();
    group.send(stream, bytes_of(std::span(&go_on, 1)), rank);
    group.recv(stream, bytes_of(std::span(&answer, 1)), rank);
    const std::int64_t took = TraceClock::now() - left;
    if (took >= quickest) continue;
    quickest = took;
    best = {.at = answer, .offset = answer - (left + took / 2), .error = (took + 1) / 2};
  }
  go_on = 0;
  group.send(stream, bytes_of(std::span(&go_on, 1)), rank);
  return best;
}

void answer(Communicator& group, Stream& stream) {
  std::int64_t go_on = 0;
  while (true) {
    group.recv(stream, bytes_of(std::span(&go_on, 1)), 0);
    if (go_on == 0) return;
    std::int64_t now = TraceClock::now();
    group.send(stream, bytes_of(std::span(&now, 1)), 0);
  }
}

// The steady clock counts from the kernel's start, shifted by a time namespace, so processes that
// share both share a clock. If that is unknown, or a test has shifted the clock, the rank has its
// own.
std::string clock_of_this_rank(int rank) {
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::array<char, 64> place{};
  const bool known = TraceClock::ahead() == 0 && boot >> id &&
                     ::readlink("/proc/self/ns/time", place.data(), place.size() - 1) > 0;
  return known ? id + place.data() : std::to_string(rank);
}

// Per rank, the first rank with the same clock.
std::vector<int> keepers_of_clocks(Communicator& group) {
  const std::vector<std::string> clocks = gather_texts(group, clock_of_this_rank(group.rank()));
  std::vector<int> keepers;
  for (const std::string& clock : clocks)
    keepers.push_back(static_cast<int>(std::ranges::find(clocks, clock) - clocks.begin()));
  return keepers;
}

}  // namespace

std::vector<ClockReading> read_clocks(Communicator& group) {
  const ScopedCommLabel label("clocks");
  const HostStream stream;
  std::vector<ClockReading> readings(static_cast<std::size_t>(group.size()));
  readings[0].at = TraceClock::now();
  if (group.size() == 1) return readings;
  const std::vector<int> keepers = keepers_of_clocks(group);
  const auto keeps_its_own = [&](int rank) {
    return keepers[static_cast<std::size_t>(rank)] == rank;
  };
  if (group.rank() == 0) {
    const Patience patience{.most_nanoseconds = for_all_ranks / group.size()};
    for (int rank = 1; rank < group.size(); ++rank) {
      if (keeps_its_own(rank))
        readings[static_cast<std::size_t>(rank)] = ask(group, *stream, rank, patience);
    }
  } else if (keeps_its_own(group.rank())) {
    answer(group, *stream);
  }
  group.broadcast(*stream, bytes_of(std::span(readings)), 0);
  for (std::size_t rank = 0; rank < readings.size(); ++rank)
    readings[rank] = readings[static_cast<std::size_t>(keepers[rank])];
  return readings;
}

ClockLine::ClockLine(const ClockReading& before, const ClockReading& after)
    : start_(before), error_(std::max(before.error, after.error)) {
  const std::int64_t moved = after.offset - before.offset;
  const auto between = static_cast<double>(after.at - before.at);
  const auto doubt = static_cast<double>(before.error + after.error);
  jumped_ = static_cast<double>(std::abs(moved)) > doubt + largest_drift * std::abs(between);
  if (jumped_) {
    start_ = after;
    error_ = after.error;
  } else if (between > 0) {
    drift_ = static_cast<double>(moved) / between;
  }
}

std::int64_t ClockLine::to_rank_0(std::int64_t own) const {
  const auto since = static_cast<double>(own - start_.at);
  return own - start_.offset - std::llround(drift_ * since);
}

}  // namespace trireme
