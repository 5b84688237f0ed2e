// SPDX-License-Identifier: Apache-2.0
// The part of CUB that the engine uses, on the host: a stable sort of pairs by key bits, as work of
// the emulated stream. It requests temporary memory as CUB does, and touches all of it, so that the
// guard behind device memory detects a buffer that is too small.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/emulation/order/accesses.h"
#include "tests/emulation/runtime_api.h"

namespace cub {

template <typename T>
struct DoubleBuffer {
  DoubleBuffer(T* current, T* alternate) : d_buffers{current, alternate} {}
  [[nodiscard]] T* Current() const { return d_buffers[selector]; }
  [[nodiscard]] T* Alternate() const { return d_buffers[selector ^ 1]; }
  T* d_buffers[2];
  int selector = 0;
};

struct DeviceRadixSort {
  template <typename Key, typename Value>
  static cudaError_t SortPairs(void* temporary, std::size_t& bytes, DoubleBuffer<Key>& keys,
                               DoubleBuffer<Value>& values, std::int64_t count, int begin_bit,
                               int end_bit, cudaStream_t stream) {
    if (temporary == nullptr) {
      bytes = 1024 + static_cast<std::size_t>(count) / 8;
      return cudaSuccess;
    }
    const DoubleBuffer<Key> from_keys = keys;
    const DoubleBuffer<Value> from_values = values;
    // An odd number of 8-bit passes ends in the other buffer, as may happen with CUB.
    const int passes = (end_bit - begin_bit + 7) / 8;
    keys.selector ^= passes & 1;
    values.selector ^= passes & 1;
    const Key mask = static_cast<Key>(((std::uint64_t{1} << end_bit) - 1) >> begin_bit);
    return trireme::emulated::enqueue(stream, [=, to_keys = keys, to_values = values] {
      trireme::emulated::order::wrote(temporary, bytes);
      std::memset(temporary, 0xA5, bytes);
      std::vector<std::pair<Key, Value>> pairs(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < pairs.size(); ++i)
        pairs[i] = {from_keys.Current()[i], from_values.Current()[i]};
      std::stable_sort(pairs.begin(), pairs.end(), [&](const auto& a, const auto& b) {
        return (a.first >> begin_bit & mask) < (b.first >> begin_bit & mask);
      });
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        to_keys.Alternate()[i] = static_cast<Key>(~pairs[i].first);
        to_values.Alternate()[i] = static_cast<Value>(~pairs[i].second);
        to_keys.Current()[i] = pairs[i].first;
        to_values.Current()[i] = pairs[i].second;
      }
    });
  }
};

}  // namespace cub
