// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/common/scratch.h"

#include <atomic>
#include <cstdlib>

#include "runtime/base/error.h"

namespace trireme::ops::cpu {
namespace {

constexpr std::size_t alignment = 64;

std::atomic<std::size_t> held_bytes{0};
std::atomic<std::size_t> allocation_count{0};

}  // namespace

std::size_t scratch_bytes() {
  return held_bytes.load(std::memory_order_relaxed);
}
std::size_t scratch_allocations() {
  return allocation_count.load(std::memory_order_relaxed);
}

ScratchBlock::~ScratchBlock() {
  std::free(data_);
  held_bytes.fetch_sub(bytes_, std::memory_order_relaxed);
}

std::byte* ScratchBlock::at_least(std::size_t bytes) {
  if (bytes <= bytes_) return data_;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  std::free(std::exchange(data_, nullptr));
  held_bytes.fetch_sub(std::exchange(bytes_, 0), std::memory_order_relaxed);
  data_ = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (data_ == nullptr) {
    fail(ExitCode::internal, "out of memory: a kernel asked for {} bytes of scratch", rounded);
  }
  bytes_ = rounded;
  held_bytes.fetch_add(rounded, std::memory_order_relaxed);
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  return data_;
}

}  // namespace trireme::ops::cpu
