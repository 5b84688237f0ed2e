// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/host/reduce.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "runtime/base/sum_tree.h"

namespace trireme {
namespace {

// Elements combined at a time; the partial sums of a tree level fit the first-level cache.
constexpr std::int64_t block = 1024;

// The type in which stored elements are combined.
template <typename T>
struct Wide {
  using type =
      std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;
};
template <>
struct Wide<bf16> {
  using type = float;
};
template <>
struct Wide<f16> {
  using type = float;
};

struct Sum {
  template <typename A, typename T>
  static A combine(A a, A b) {
    return static_cast<A>(a + b);
  }
};
struct Max {
  template <typename A, typename T>
  static A combine(A a, A b) {
    const auto x = static_cast<std::conditional_t<std::is_integral_v<T>, T, A>>(a);
    const auto y = static_cast<std::conditional_t<std::is_integral_v<T>, T, A>>(b);
    return x > y || x != x ? a : b;
  }
};
struct Min {
  template <typename A, typename T>
  static A combine(A a, A b) {
    const auto x = static_cast<std::conditional_t<std::is_integral_v<T>, T, A>>(a);
    const auto y = static_cast<std::conditional_t<std::is_integral_v<T>, T, A>>(b);
    return x < y || x != x ? a : b;
  }
};

template <typename T, typename Op>
class Tree {
  using A = Wide<T>::type;

 public:
  Tree(std::span<const std::byte* const> inputs, std::size_t doubled)
      : inputs_(inputs), doubled_(doubled) {}

  void run(std::byte* out, std::int64_t count) const {
    T* const to = reinterpret_cast<T*>(out);
    std::array<A, block> result;
    for (std::int64_t begin = 0; begin < count; begin += block) {
      const std::int64_t size = std::min(block, count - begin);
      reduce(0, inputs_.size(), begin, size, result.data());
      for (std::int64_t i = 0; i < size; ++i) {
        to[begin + i] = static_cast<T>(result[static_cast<std::size_t>(i)]);
      }
    }
  }

 private:
  // Combines inputs [first, first + number) for elements [begin, begin + size) into `result`.
  void reduce(std::size_t first, std::size_t number, std::int64_t begin, std::int64_t size,
              A* result) const {
    const T* const left = reinterpret_cast<const T*>(inputs_[first]) + begin;
    if (number == 1) {
      for (std::int64_t i = 0; i < size; ++i)
        result[i] = static_cast<A>(left[i]);
    } else if (number == 2) {
      const T* const right = reinterpret_cast<const T*>(inputs_[first + 1]) + begin;
      for (std::int64_t i = 0; i < size; ++i) {
        result[i] = Op::template combine<A, T>(static_cast<A>(left[i]), static_cast<A>(right[i]));
      }
    } else {
      const std::size_t half = left_half(first, number, doubled_);
      std::array<A, block> other;
      reduce(first, half, begin, size, result);
      reduce(first + half, number - half, begin, size, other.data());
      for (std::int64_t i = 0; i < size; ++i) {
        result[i] = Op::template combine<A, T>(result[i], other[static_cast<std::size_t>(i)]);
      }
    }
  }

  std::span<const std::byte* const> inputs_;
  std::size_t doubled_;
};

template <typename T>
void reduce_as(ReduceOp op, std::span<const std::byte* const> inputs, std::byte* out,
               std::int64_t count, std::size_t doubled) {
  switch (op) {
    case ReduceOp::sum:
      return Tree<T, Sum>(inputs, doubled).run(out, count);
    case ReduceOp::max:
      return Tree<T, Max>(inputs, doubled).run(out, count);
    case ReduceOp::min:
      return Tree<T, Min>(inputs, doubled).run(out, count);
  }
}

}  // namespace

void reduce_tree(DType dtype, ReduceOp op, std::span<const std::byte* const> inputs, std::byte* out,
                 std::int64_t count, std::size_t doubled) {
  switch (dtype) {
    case DType::f32:
      return reduce_as<float>(op, inputs, out, count, doubled);
    case DType::f64:
      return reduce_as<double>(op, inputs, out, count, doubled);
    case DType::bf16:
      return reduce_as<bf16>(op, inputs, out, count, doubled);
    case DType::f16:
      return reduce_as<f16>(op, inputs, out, count, doubled);
    case DType::u8:
      return reduce_as<std::uint8_t>(op, inputs, out, count, doubled);
    case DType::u16:
      return reduce_as<std::uint16_t>(op, inputs, out, count, doubled);
    case DType::u32:
      return reduce_as<std::uint32_t>(op, inputs, out, count, doubled);
    case DType::u64:
      return reduce_as<std::uint64_t>(op, inputs, out, count, doubled);
    case DType::i32:
      return reduce_as<std::int32_t>(op, inputs, out, count, doubled);
    case DType::i64:
      return reduce_as<std::int64_t>(op, inputs, out, count, doubled);
    case DType::f8e4m3:
    case DType::f8e5m2:
      // Each tensor has its own scale, so codes of two ranks cannot be added.
      TRIREME_EXPECTS(false, "{} values cannot be reduced", name_of(dtype));
  }
}

}  // namespace trireme
