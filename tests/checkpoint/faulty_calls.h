// SPDX-License-Identifier: Apache-2.0
// System calls that fail on demand. Linked into a test program, the functions below replace the C
// library's, for our code and for libraries. Only calls on files below the armed directory count
// and fail.
#pragma once

#include <string>

namespace trireme::test {

enum class Fault {
  no_space,      // -1, ENOSPC
  io_error,      // -1, EIO; a close happens all the same
  short_write,   // half of the bytes are written
  crash_before,  // the process ends at once instead of the call
  crash_after    // and right behind it
};

// Call number `nth` (from 0) fails from now on, once.
void arm_fault(const std::string& directory, Fault fault, int nth);
// Counts calls without failing any.
void count_calls(const std::string& directory);
void disarm_faults();
// Calls that counted since arming.
[[nodiscard]] int calls_counted();
// The failed call: "pwrite", ..., or "".
[[nodiscard]] std::string failed_call();

inline constexpr int crash_code = 99;

}  // namespace trireme::test
