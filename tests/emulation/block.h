// SPDX-License-Identifier: Apache-2.0
// The threads of a CUDA block, emulated by fibers of one host thread: barriers, shuffles, shared
// memory. What hardware leaves undefined ends the program with a message: threads that wait at
// different barriers, that leave while others wait, lanes that a shuffle's mask names and that do
// not come.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>

namespace trireme::emulated {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr Dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  [[nodiscard]] std::int64_t count() const { return std::int64_t{x} * y * z; }
};

// Runs `thread` once for every thread of every block, block after block. Blocks get `shared_bytes`
// of dynamic shared memory, filled with NaNs.
void run_grid(Dim3 grid, Dim3 block, std::size_t shared_bytes, const std::function<void()>& thread);

[[nodiscard]] void* dynamic_shared();
// All threads of the block that have not returned.
void block_barrier();
// The lanes of this thread's warp that `mask` names.
void warp_barrier(unsigned mask);
[[nodiscard]] int lane_index();

// Leaves `value` for the warp, waits for the lanes of `mask` and returns what lane `source` left.
std::uint64_t exchange(unsigned mask, std::uint64_t value, int source);
// A bit for every lane of `mask` whose `predicate` is true.
unsigned ballot(unsigned mask, bool predicate);

template <typename T>
T exchange_value(unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  word = exchange(mask, word, source);
  std::memcpy(&value, &word, sizeof(T));
  return value;
}

}  // namespace trireme::emulated

// The built-in variables of the running thread.
extern constinit thread_local trireme::emulated::Dim3 threadIdx, blockIdx, blockDim, gridDim;
