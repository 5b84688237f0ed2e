// SPDX-License-Identifier: Apache-2.0
// What is told of two accesses that nothing orders. Each ends the program.
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
// Of accesses.cpp; no bytes: it lies in none.
[[nodiscard]] Allocation allocation_of(std::uintptr_t address);

[[noreturn]] void report_unordered(std::uintptr_t address, Access now, Access earlier);
[[noreturn]] void report_released(std::uintptr_t address, Access earlier);
[[noreturn]] void report_host_access(const void* data, bool writes, const Operation& earlier);
[[noreturn]] void report_time_asked();

}  // namespace trireme::emulated::order
