// SPDX-License-Identifier: Apache-2.0
// Page-locked memory whose pages the host cannot touch while a copy is under way that it has not
// waited for: not read what a copy writes, not write what one reads. The device sees the same
// memory at other addresses.
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
  std::atomic<std::uint32_t> tick = 0;  // 0: it has not begun
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
// Where the device sees an address; any other is its own.
[[nodiscard]] void* device_view(void* data);
[[nodiscard]] const void* device_view(const void* data);

// nullptr where there is nothing to close.
[[nodiscard]] std::shared_ptr<Flight> close_pinned(const Lane& lane, const Operation& operation,
                                                   const std::vector<PinnedUse>& uses);
void open_waited_for(const Clock& host);

}  // namespace trireme::emulated::order
