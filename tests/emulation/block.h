// SPDX-License-Identifier: Apache-2.0
// Emulates the threads of a CUDA block by fibers of one host thread: barriers, shuffles, shared
// memory. Undefined behaviour ends the program with a message: threads waiting at different
// barriers, threads that exit while others wait, and lanes in a shuffle's mask that do not arrive.
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

// Publishes `value` to the warp, waits for the lanes of `mask` and returns the value of lane
// `source`.
std::uint64_t exchange(unsigned mask, std::uint64_t value, int source);
// One bit per lane of `mask`: its `predicate`.
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
