// SPDX-License-Identifier: Apache-2.0
#include "data/fields/storage/filter_steps.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"

namespace trireme {
namespace {

using Bytes = std::uint8_t __attribute__((vector_size(16), aligned(1), may_alias));

// Interleaves the lower or upper halves: a0 b0 a1 b1 ...
Bytes low(Bytes a, Bytes b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
Bytes high(Bytes a, Bytes b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
}

template <std::size_t width>
struct Planes {
  Bytes at[width];  // byte k of 16 elements
};

// 16 elements of `width` bytes from as many planes: interleaves i with i + width / 2 until elements
// are complete. By value and unrolled, so planes stay in registers; stored one by one, because a
// wide load right after narrow stores waits for all of them.
template <std::size_t width, std::size_t step = 1>
[[gnu::always_inline]] inline void interleave(const Planes<width>& now, std::byte* to) {
  if constexpr (step == width) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < width; ++i)
      std::memcpy(to + i * sizeof(Bytes), &now.at[i], sizeof(Bytes));
  } else {
    Planes<width> next;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < width / 2; ++i) {
      next.at[2 * i] = low(now.at[i], now.at[i + width / 2]);
      next.at[2 * i + 1] = high(now.at[i], now.at[i + width / 2]);
    }
    interleave<width, 2 * step>(next, to);
  }
}

// Byte k of the elements is `stride` bytes after byte k - 1.
template <std::size_t width>
void unshuffle_wide(const std::byte* from, std::size_t stride, std::size_t elements,
                    std::byte* to) {
  constexpr std::size_t lanes = sizeof(Bytes);
  std::size_t i = 0;
  for (; i + lanes <= elements; i += lanes) {
    Planes<width> planes;
#pragma GCC unroll 8
    for (std::size_t k = 0; k < width; ++k)
      std::memcpy(&planes.at[k], from + k * stride + i, lanes);
    interleave<width>(planes, to + i * width);
  }
  for (; i < elements; ++i) {
    for (std::size_t k = 0; k < width; ++k)
      to[i * width + k] = from[k * stride + i];
  }
}

void unshuffle_any(std::size_t width, const std::byte* from, std::size_t stride,
                   std::size_t elements, std::byte* to) {
  switch (width) {
    case 2:
      return unshuffle_wide<2>(from, stride, elements, to);
    case 4:
      return unshuffle_wide<4>(from, stride, elements, to);
    case 8:
      return unshuffle_wide<8>(from, stride, elements, to);
    default:
      for (std::size_t k = 0; k < width; ++k) {
        for (std::size_t i = 0; i < elements; ++i)
          to[i * width + k] = from[k * stride + i];
      }
  }
}

// HDF5's variant: sums of big-endian 16-bit words, with an odd last byte as the upper half of one.
std::uint32_t fletcher32_of(std::span<const std::byte> bytes) {
  constexpr std::size_t words_without_overflow = 360;
  std::uint32_t low = 0, high = 0;
  std::size_t words = bytes.size() / 2;
  const auto* at = reinterpret_cast<const std::uint8_t*>(bytes.data());
  while (words > 0) {
    const std::size_t some = std::min(words, words_without_overflow);
    for (std::size_t i = 0; i < some; ++i, at += 2) {
      low += static_cast<std::uint32_t>(at[0] << 8 | at[1]);
      high += low;
    }
    words -= some;
    low = (low & 0xffffU) + (low >> 16);
    high = (high & 0xffffU) + (high >> 16);
  }
  if (bytes.size() % 2 != 0) {
    low += static_cast<std::uint32_t>(*at << 8);
    high += low;
  }
  for (int i = 0; i < 2; ++i) {
    low = (low & 0xffffU) + (low >> 16);
    high = (high & 0xffffU) + (high >> 16);
  }
  return high << 16 | low;
}

}  // namespace

std::size_t unshuffle(std::size_t element_bytes, std::span<const std::byte> from,
                      std::span<std::byte> to) {
  if (from.size() > to.size()) fail(ExitCode::data, "shuffle: the result is larger than the chunk");
  const std::size_t elements = element_bytes == 0 ? 0 : from.size() / element_bytes;
  if (element_bytes <= 1 || elements <= 1) {
    std::ranges::copy(from, to.begin());
    return from.size();
  }
  unshuffle_any(element_bytes, from.data(), elements, elements, to.data());
  const std::size_t done = elements * element_bytes;
  std::ranges::copy(from.subspan(done), to.begin() + static_cast<std::ptrdiff_t>(done));
  return from.size();
}

void unshuffle_part(std::size_t element_bytes, std::span<const std::byte> from, std::size_t first,
                    std::span<std::byte> to) {
  unshuffle_any(element_bytes, from.data() + first, from.size() / element_bytes,
                to.size() / element_bytes, to.data());
}

void unshuffle_bits(std::size_t element_bytes, std::span<const std::byte> from,
                    std::span<std::byte> to) {
  const std::size_t eights = from.size() / element_bytes / 8;
  for (std::size_t k = 0; k < element_bytes; ++k) {
    for (std::size_t i = 0; i < eights; ++i) {
      std::uint64_t bits = 0;  // 8 x 8: a bit of eight elements in each byte
      for (std::size_t b = 0; b < 8; ++b)
        bits |= std::to_integer<std::uint64_t>(from[(k * 8 + b) * eights + i]) << (8 * b);
      // Transposed in blocks of 1, 2 and 4 (Warren, Hacker's Delight, 7-3).
      for (const auto& [mask, by] : {std::pair{0x00aa00aa00aa00aaULL, 7},
                                     {0x0000cccc0000ccccULL, 14},
                                     {0x00000000f0f0f0f0ULL, 28}}) {
        const std::uint64_t moved = (bits ^ (bits >> by)) & mask;
        bits ^= moved ^ (moved << by);
      }
      for (std::size_t e = 0; e < 8; ++e)
        to[(i * 8 + e) * element_bytes + k] = static_cast<std::byte>(bits >> (8 * e));
    }
  }
}

std::size_t check_fletcher32(std::span<const std::byte> from, std::span<std::byte> to) {
  constexpr std::size_t sum_bytes = 4;
  if (from.size() < sum_bytes) fail(ExitCode::data, "fletcher32: shorter than its checksum");
  const auto data = from.first(from.size() - sum_bytes);
  if (data.size() > to.size())
    fail(ExitCode::data, "fletcher32: the result is larger than the chunk");
  std::uint32_t stored = 0;
  std::memcpy(&stored, from.data() + data.size(), sum_bytes);
  const std::uint32_t computed = fletcher32_of(data);
  // HDF5 before 1.6.3 swapped the bytes of each half on little-endian machines.
  const std::uint32_t old = (computed & 0x00ff00ffU) << 8 | (computed & 0xff00ff00U) >> 8;
  if (stored != computed && stored != old) {
    fail(ExitCode::data, "fletcher32: the checksum is {:08x}, but its bytes have {:08x}", stored,
         computed);
  }
  std::ranges::copy(data, to.begin());
  return data.size();
}

std::uint64_t BigEndianReader::number(std::size_t count) {
  std::uint64_t value = 0;
  for (const std::byte byte : bytes(count))
    value = value << 8 | static_cast<std::uint64_t>(byte);
  return value;
}

std::span<const std::byte> BigEndianReader::bytes(std::uint64_t count) {
  if (count > from_.size()) fail(ExitCode::data, "{}: the data ends early", filter_);
  const auto taken = from_.first(static_cast<std::size_t>(count));
  from_ = from_.subspan(static_cast<std::size_t>(count));
  return taken;
}

}  // namespace trireme
