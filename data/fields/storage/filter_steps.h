// SPDX-License-Identifier: Apache-2.0
// HDF5's own filters except deflate, and framing that other filters share. Private to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace trireme {

// Reassembles the bytes of elements: byte k of all elements is stored as the k-th run. Bytes of an
// incomplete element follow unchanged. Returns from.size(). Raises ExitCode::data if `to` is
// shorter.
std::size_t unshuffle(std::size_t element_bytes, std::span<const std::byte> from,
                      std::span<std::byte> to);

// The same for the part `to`: elements from `first` on of those in `from`, which are complete.
void unshuffle_part(std::size_t element_bytes, std::span<const std::byte> from, std::size_t first,
                    std::span<std::byte> to);

// Undoes bitshuffle (Masui et al., 2015) of `from`, whose elements are a multiple of 8: bit b of
// byte k of all elements is stored as run 8 k + b.
void unshuffle_bits(std::size_t element_bytes, std::span<const std::byte> from,
                    std::span<std::byte> to);

// Compares the four last bytes with the checksum of those before, which it copies.
std::size_t check_fletcher32(std::span<const std::byte> from, std::span<std::byte> to);

// Undoes szip (the extended Golomb-Rice codes of CCSDS 121.0-B) by libaec. `values`: option mask,
// elements per block, bits per element, elements per line. `scratch` grows to less than twice
// to.size(). Raises ExitCode::data for a broken stream and for values that no writer uses.
std::size_t unszip(std::span<const std::uint32_t> values, std::span<const std::byte> from,
                   std::span<std::byte> to, std::vector<std::byte>& scratch);

// Reads numbers and bytes; running out of them means that `filter`'s data is damaged.
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
