// SPDX-License-Identifier: Apache-2.0
// Counts calls of operator new, for tests that a steady step allocates nothing. Include it in one
// source file of a test binary: it replaces the global operators.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace trireme::test {

inline std::atomic<std::size_t> allocations{0};

}  // namespace trireme::test

// Not inlined, or the compiler warns about free() on memory of operator new.
[[gnu::noinline]] void* operator new(std::size_t size) {
  trireme::test::allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const data = std::malloc(size == 0 ? 1 : size)) return data;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* data) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept {
  std::free(data);
}
