// SPDX-License-Identifier: Apache-2.0
// Records for every byte of device and page-locked memory the operation that last wrote it and
// those that read it since. An access that is not ordered after these ends the program with a
// report. Kernels are compiled with ThreadSanitizer's instrumentation: its hooks
// (instrumentation.cpp) report the true address of each load and store; copies, products and NCCL
// calls call read() and wrote().
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::emulated::order {

// The program's kernels are compiled so.
extern bool kernels_observed;

struct Covered {
  std::uintptr_t first = 0;
  std::size_t bytes = 0;
};
extern Covered device_memory, pinned_memory;  // empty unless on()

void cover_device(void* data, std::size_t bytes);
void cover_pinned(void* data, std::size_t bytes);
void allocated(const void* data, std::size_t bytes);
// The host must have waited for all users of the memory: the implicit wait of freeing does not
// count.
void released(const void* data);

// For tests: gets each access to covered memory, with the number of its kernel or call. Null: off.
using AccessObserver = void (*)(std::uint32_t operation, std::uintptr_t address, std::size_t bytes,
                                bool writes);
extern AccessObserver access_observer;

// Called by the work on this thread; other memory is ignored.
void touch_covered(std::uintptr_t address, std::size_t bytes, bool writes);

inline void touch(const volatile void* data, std::size_t bytes, bool writes) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (address - device_memory.first < device_memory.bytes ||
      address - pinned_memory.first < pinned_memory.bytes)
    touch_covered(address, bytes, writes);
}
inline void read(const void* data, std::size_t bytes) {
  touch(data, bytes, false);
}
void copied(void* to, const void* from, std::size_t bytes);
inline void wrote(const void* data, std::size_t bytes) {
  touch(data, bytes, true);
}

}  // namespace trireme::emulated::order
