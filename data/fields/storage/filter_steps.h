// SPDX-License-Identifier: Apache-2.0
// HDF5's own filters but deflate, and framing that several others share. Private to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace trireme {

// Puts the bytes of elements together again: byte k of all of them stands k-th. Bytes that make no
// whole element stand at the end as they are. Returns from.size(). Raises ExitCode::data where `to`
// is shorter.
std::size_t unshuffle(std::size_t element_bytes, std::span<const std::byte> from,
                      std::span<std::byte> to);

// The same for `to` alone, elements from `first` on of those of `from`, which are whole.
void unshuffle_part(std::size_t element_bytes, std::span<const std::byte> from, std::size_t first,
                    std::span<std::byte> to);

// Compares the four bytes at the end with the checksum of those before, which it copies.
std::size_t check_fletcher32(std::span<const std::byte> from, std::span<std::byte> to);

// Undoes szip (the extended Golomb-Rice codes of CCSDS 121.0-B) by libaec. `values`: option mask,
// elements of a block, bits of an element, elements of a line. `scratch` grows to less than twice
// to.size(). Raises ExitCode::data for a broken stream, and for values that no writer gives.
std::size_t unszip(std::span<const std::uint32_t> values, std::span<const std::byte> from,
                   std::span<std::byte> to, std::vector<std::byte>& scratch);

// Numbers and bytes in turn; running out of them is damage of `filter`.
class BigEndianReader {
 public:
  BigEndianReader(std::span<const std::byte> from, std::string_view filter)
      : from_(from), filter_(filter) {}
  [[nodiscard]] std::uint64_t number(std::size_t bytes);
  [[nodiscard]] std::span<const std::byte> bytes(std::uint64_t count);

 private:
  std::span<const std::byte> from_;
  std::string_view filter_;
};

}  // namespace trireme
