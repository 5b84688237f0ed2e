// SPDX-License-Identifier: Apache-2.0
// Private: scratch memory of CPU kernels. A kernel has one `static thread_local ScratchBlock`; it
// grows to the largest request and stays, so a steady training step allocates nothing.
#pragma once

#include <cstddef>
#include <utility>

namespace trireme::ops::cpu {

// Bytes held by all ScratchBlocks of the process.
[[nodiscard]] std::size_t scratch_bytes();
// Number of allocations by all ScratchBlocks; a steady step adds none.
[[nodiscard]] std::size_t scratch_allocations();

class ScratchBlock {
 public:
  ScratchBlock() = default;
  ~ScratchBlock();
  ScratchBlock(const ScratchBlock&) = delete;
  ScratchBlock& operator=(const ScratchBlock&) = delete;
  ScratchBlock(ScratchBlock&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  ScratchBlock& operator=(ScratchBlock&&) = delete;

  // At least `bytes` bytes, 64-byte aligned, with undefined contents. A request larger than all
  // before may invalidate earlier pointers.
  [[nodiscard]] std::byte* at_least(std::size_t bytes);
  [[nodiscard]] float* floats(std::size_t count) {
    return reinterpret_cast<float*>(at_least(count * sizeof(float)));
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace trireme::ops::cpu
