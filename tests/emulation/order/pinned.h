// SPDX-License-Identifier: Apache-2.0
// Page-locked memory with protected pages: while a copy is in flight that the host has not waited
// for, the host cannot read its target or write its source. The device sees the same memory at
// other addresses.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace trireme::emulated::order {

class Clock;
class Lane;
struct Operation;

// An operation under way on page-locked memory.
struct Flight {
  const Operation* operation;
  std::uint32_t lane;
  std::atomic<std::uint32_t> tick = 0;  // 0: not started
};

struct PinnedUse {
  const void* data;
  std::size_t bytes;
  bool writes;
};

// nullptr: no room.
[[nodiscard]] void* allocate_pinned(std::size_t bytes);
void release_pinned(void* data);
[[nodiscard]] bool holds_pinned_of_order(const void* data);
// The device's address of pinned memory; others are unchanged.
[[nodiscard]] void* device_view(void* data);
[[nodiscard]] const void* device_view(const void* data);

// nullptr if there is nothing to close.
[[nodiscard]] std::shared_ptr<Flight> close_pinned(const Lane& lane, const Operation& operation,
                                                   const std::vector<PinnedUse>& uses);
void open_waited_for(const Clock& host);

}  // namespace trireme::emulated::order
