// SPDX-License-Identifier: Apache-2.0
// Traces this process's threads during traced steps: the training thread's activities, the loader's
// reads, counters. Any thread may add entries; that costs a flag check if nothing is traced,
// otherwise two clock reads and a slot of a fixed table.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/device/trace/trace_clock.h"

namespace trireme {

enum class HostTraceKind : std::uint8_t {
  activity,  // of the training thread; numbers: chunk and micro-batch
  read,      // of a loader thread; numbers: batch and part
  counter    // begin == end; the first number is the value
};

struct HostTraceEntry {
  HostTraceKind kind = HostTraceKind::activity;
  std::string_view name;            // a literal
  int thread = 0;                   // from 0, by first entry
  std::int64_t begin = 0, end = 0;  // TraceClock
  std::int64_t numbers[2] = {-1, -1};
};

class HostTrace {
 public:
  // Entries beyond this are counted as lost.
  static constexpr std::size_t capacity = std::size_t{1} << 15U;

  [[nodiscard]] static bool on() noexcept { return on_.load(std::memory_order_relaxed); }
  // Clears earlier entries. Only one trace per process at a time.
  static void start() noexcept;
  static void stop() noexcept;
  struct Entries {
    std::vector<HostTraceEntry> entries;  // unordered
    std::size_t lost = 0;
  };
  // Entries between start() and stop().
  [[nodiscard]] static Entries entries();

  static void add(HostTraceKind kind, std::string_view name, std::int64_t begin, std::int64_t end,
                  std::int64_t first, std::int64_t second) noexcept;
  static void count(std::string_view name, std::int64_t value) noexcept {
    if (!on()) return;
    const std::int64_t now = TraceClock::now();
    add(HostTraceKind::counter, name, now, now, value, -1);
  }
  // The calling thread, which trains, starts another activity.
  static void set_activity(std::string_view what, int chunk, int micro_batch) noexcept;

 private:
  inline static std::atomic<bool> on_ = false;
};

// A loader thread's read during the object's life. `name` is a literal.
class HostTraceSpan {
 public:
  HostTraceSpan(std::string_view name, std::int64_t first, std::int64_t second) noexcept
      : name_(name),
        first_(first),
        second_(second),
        begin_(HostTrace::on() ? TraceClock::now() : not_traced) {}
  ~HostTraceSpan() {
    if (begin_ != not_traced && HostTrace::on())
      HostTrace::add(HostTraceKind::read, name_, begin_, TraceClock::now(), first_, second_);
  }
  HostTraceSpan(const HostTraceSpan&) = delete;
  HostTraceSpan& operator=(const HostTraceSpan&) = delete;

 private:
  static constexpr std::int64_t not_traced = INT64_MIN;
  std::string_view name_;
  std::int64_t first_, second_, begin_;
};

}  // namespace trireme
