// SPDX-License-Identifier: Apache-2.0
// Tensors of any dtype with small integers, which every dtype represents exactly.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "runtime/base/shape.h"
#include "tests/support/mirrors.h"

namespace trireme::test {

inline constexpr DType all_dtypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16, DType::u8,
                                       DType::u16, DType::u32, DType::u64,  DType::i32, DType::i64};

// Calls action(T{}) with the C++ type of `dtype`.
template <typename Action>
decltype(auto) with_type(DType dtype, Action&& action) {
  switch (dtype) {
    case DType::f32:
      return action(float{});
    case DType::f64:
      return action(double{});
    case DType::bf16:
      return action(bf16{});
    case DType::f16:
      return action(f16{});
    case DType::u8:
      return action(std::uint8_t{});
    case DType::u16:
      return action(std::uint16_t{});
    case DType::u32:
      return action(std::uint32_t{});
    case DType::u64:
      return action(std::uint64_t{});
    case DType::i32:
      return action(std::int32_t{});
    case DType::i64:
      return action(std::int64_t{});
    case DType::f8e4m3:
    case DType::f8e5m2:
      break;  // moved as bytes, never reduced
  }
  return action(float{});
}

// A tensor with storage and guard elements on both sides.
class Values {
 public:
  Values(DType dtype, std::int64_t count)
      : dtype_(dtype),
        count_(count),
        bytes_(size_of(dtype) * static_cast<std::size_t>(count) + 2 * guard, fill) {}

  [[nodiscard]] Tensor tensor(Mirrors& mirrors) {
    return {mirrors.of(bytes_) + guard, dtype_, Shape{count_}};
  }
  [[nodiscard]] std::int64_t count() const { return count_; }

  void set(std::int64_t index, int value) {
    with_type(dtype_, [&]<typename T>(T) {
      const T element = static_cast<T>(static_cast<float>(value));
      std::memcpy(at(index), &element, sizeof element);
    });
  }
  [[nodiscard]] int get(std::int64_t index) const {
    return with_type(dtype_, [&]<typename T>(T element) {
      std::memcpy(&element, const_cast<Values*>(this)->at(index), sizeof element);
      return static_cast<int>(static_cast<float>(element));
    });
  }
  [[nodiscard]] std::vector<int> all() const {
    std::vector<int> values;
    for (std::int64_t i = 0; i < count_; ++i)
      values.push_back(get(i));
    return values;
  }
  [[nodiscard]] bool guards_intact() const {
    for (std::size_t i = 0; i < guard; ++i) {
      if (bytes_[i] != fill || bytes_[bytes_.size() - 1 - i] != fill) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t guard = 64;
  static constexpr std::byte fill{0xA5};

  [[nodiscard]] std::byte* at(std::int64_t index) {
    return bytes_.data() + guard + static_cast<std::size_t>(index) * size_of(dtype_);
  }

  DType dtype_;
  std::int64_t count_;
  std::vector<std::byte> bytes_;
};

// Rank r's value at index i of a tensor; sums over eight ranks stay below 64.
[[nodiscard]] inline int value_of(int rank, std::int64_t index) {
  return static_cast<int>((static_cast<std::int64_t>(rank) * 3 + index * 5 + index / 7) % 8);
}

[[nodiscard]] inline Values filled(DType dtype, std::int64_t count, int rank) {
  Values values(dtype, count);
  for (std::int64_t i = 0; i < count; ++i)
    values.set(i, value_of(rank, i));
  return values;
}

}  // namespace trireme::test
