// SPDX-License-Identifier: Apache-2.0
#include "data/fields/storage/element_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "runtime/base/dtype.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint8_t swapped(std::uint8_t value) {
  return value;
}
constexpr std::uint16_t swapped(std::uint16_t value) {
  return __builtin_bswap16(value);
}
constexpr std::uint32_t swapped(std::uint32_t value) {
  return __builtin_bswap32(value);
}
constexpr std::uint64_t swapped(std::uint64_t value) {
  return __builtin_bswap64(value);
}

// The bits of an element and their value.
template <typename Bits, typename Value>
struct Element {
  using Word = Bits;
  static auto value(Bits bits) {
    if constexpr (std::is_same_v<Value, f16> || std::is_same_v<Value, bf16>) {
      return static_cast<float>(std::bit_cast<Value>(bits));
    } else {
      return std::bit_cast<Value>(bits);
    }
  }
};

// Calls `use` with the Element of a type.
template <typename Use>
auto visit_element(const ElementType& type, Use&& use) {
  using std::uint16_t;
  switch (type.kind) {
    case ElementKind::brain_float:
      return use(Element<uint16_t, bf16>{});
    case ElementKind::floating:
      if (type.bytes == 2) return use(Element<uint16_t, f16>{});
      if (type.bytes == 4) return use(Element<std::uint32_t, float>{});
      return use(Element<std::uint64_t, double>{});
    case ElementKind::signed_integer:
      if (type.bytes == 1) return use(Element<std::uint8_t, std::int8_t>{});
      if (type.bytes == 2) return use(Element<uint16_t, std::int16_t>{});
      if (type.bytes == 4) return use(Element<std::uint32_t, std::int32_t>{});
      return use(Element<std::uint64_t, std::int64_t>{});
    case ElementKind::unsigned_integer:
      break;
  }
  if (type.bytes == 1) return use(Element<std::uint8_t, std::uint8_t>{});
  if (type.bytes == 2) return use(Element<uint16_t, std::uint16_t>{});
  if (type.bytes == 4) return use(Element<std::uint32_t, std::uint32_t>{});
  return use(Element<std::uint64_t, std::uint64_t>{});
}

template <bool swap, typename E, typename To>
void convert(E /*element*/, const std::byte* from, std::span<To> to) {
  using Word = typename E::Word;
  for (std::size_t i = 0; i < to.size(); ++i) {
    Word word;
    std::memcpy(&word, from + i * sizeof(Word), sizeof(Word));
    if constexpr (swap) word = swapped(word);
    to[i] = static_cast<To>(E::value(word));
  }
}

template <typename To>
void convert_all(const ElementType& type, const std::byte* from, std::span<To> to) {
  visit_element(type, [&](auto element) {
    type.big_endian ? convert<true>(element, from, to) : convert<false>(element, from, to);
  });
}

// One loop per step, so that no product is fused with its sum, which would round otherwise.
void unpack(const NumberPacking& packing, std::span<double> values) {
  for (double& value : values) {
    const bool missing = value < packing.least || value > packing.most ||
                         std::ranges::find(packing.missing, value) != packing.missing.end();
    if (missing) value = std::numeric_limits<double>::quiet_NaN();
  }
  if (packing.scale != 1) {
    const auto scale = static_cast<float>(packing.scale);
    for (double& value : values)
      value = packing.single_product ? static_cast<double>(static_cast<float>(value) * scale)
                                     : value * packing.scale;
  }
  if (packing.offset != 0) {
    const auto offset = static_cast<float>(packing.offset);
    for (double& value : values)
      value = packing.single_sum ? static_cast<double>(static_cast<float>(value) + offset)
                                 : value + packing.offset;
  }
}

}  // namespace

bool ElementType::is_valid() const {
  switch (kind) {
    case ElementKind::brain_float:
      return bytes == 2;
    case ElementKind::floating:
      return bytes == 2 || bytes == 4 || bytes == 8;
    case ElementKind::signed_integer:
    case ElementKind::unsigned_integer:
      return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  }
  return false;
}

std::string name_of(const ElementType& type) {
  const char* const order = type.big_endian && type.bytes > 1 ? "big-endian " : "";
  const int bits = 8 * type.bytes;
  switch (type.kind) {
    case ElementKind::brain_float:
      return fmt::format("{}bfloat16", order);
    case ElementKind::floating:
      return fmt::format("{}float{}", order, bits);
    case ElementKind::signed_integer:
      return fmt::format("{}int{}", order, bits);
    case ElementKind::unsigned_integer:
      break;
  }
  return fmt::format("{}uint{}", order, bits);
}

void to_floats(const ElementType& type, const NumberPacking& packing, const std::byte* from,
               std::span<float> to) {
  if (packing.is_none()) {
    if (!type.is_native_float()) return convert_all(type, from, to);
    if (!to.empty()) std::memcpy(to.data(), from, to.size_bytes());
    return;
  }
  std::array<double, 256> block{};
  while (!to.empty()) {
    const auto values = std::span(block).first(std::min(block.size(), to.size()));
    convert_all(type, from, values);
    unpack(packing, values);
    std::ranges::transform(values, to.begin(),
                           [](double value) { return static_cast<float>(value); });
    from += values.size() * type.bytes;
    to = to.subspan(values.size());
  }
}

double to_double(const ElementType& type, const std::byte* from) {
  double value = 0;
  convert_all(type, from, std::span(&value, 1));
  return value;
}

double to_double(const ElementType& type, const NumberPacking& packing, const std::byte* from) {
  double value = to_double(type, from);
  if (!packing.is_none()) unpack(packing, {&value, 1});
  return value;
}

}  // namespace trireme
