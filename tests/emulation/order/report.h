// SPDX-License-Identifier: Apache-2.0
// Reports on two unordered accesses, and on an access to bytes without a value. Each ends the
// program.
#pragma once

#include <cstdint>

#include "tests/emulation/order/operations.h"

namespace trireme::emulated::order {

struct Access {
  ExecutedId by;
  bool writes;
};

struct Allocation {
  std::uintptr_t first = 0;
  std::size_t bytes = 0, number = 0;
  Frames made;
};
// From accesses.cpp; zero bytes if the address is in none.
[[nodiscard]] Allocation allocation_of(std::uintptr_t address);
// The last allocation before `address`, if that is in none.
[[nodiscard]] Allocation allocation_before(std::uintptr_t address);

[[noreturn]] void report_unordered(std::uintptr_t address, Access now, Access earlier);
[[noreturn]] void report_released(std::uintptr_t address, Access earlier);
[[noreturn]] void report_host_access(const void* data, bool writes, const Operation& earlier);
[[noreturn]] void report_time_asked();
// Called by the work on this thread.
[[noreturn]] void report_outside(std::uintptr_t address, bool writes);
[[noreturn]] void report_unwritten(std::uintptr_t address);

}  // namespace trireme::emulated::order
