// SPDX-License-Identifier: Apache-2.0
#include <libaec.h>

#include <algorithm>
#include <cstring>

#include "data/fields/storage/filter_steps.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// The filter's values in a file: bits of a mask, and sizes in elements.
struct SzipValues {
  std::uint32_t options, block, bits, line;
};

SzipValues values_of(std::span<const std::uint32_t> values) {
  constexpr std::uint32_t most_block = 32, most_blocks = 128;
  if (values.size() < 4) fail(ExitCode::data, "szip: it has {} of 4 parameters", values.size());
  const SzipValues szip{values[0], values[1], values[2], values[3]};
  if (szip.block < 2 || szip.block > most_block || szip.block % 2 != 0)
    fail(ExitCode::data, "szip: blocks of {} elements; allowed are 2, 4, ... 32", szip.block);
  if (szip.line < szip.block || szip.line > szip.block * most_blocks)
    fail(ExitCode::data, "szip: lines of {} elements in blocks of {}", szip.line, szip.block);
  if (szip.bits != 8 && szip.bits != 16 && szip.bits != 32 && szip.bits != 64)
    fail(ExitCode::data, "szip: elements of {} bits; allowed are 8, 16, 32 and 64", szip.bits);
  return szip;
}

// The decoded size, in the first 4 bytes of a chunk.
std::size_t decoded_bytes(std::span<const std::byte> from, std::size_t room) {
  constexpr std::size_t size_bytes = 4;
  if (from.size() < size_bytes) fail(ExitCode::data, "szip: the data ends early");
  std::uint32_t bytes = 0;  // little-endian
  for (std::size_t i = size_bytes; i-- > 0;)
    bytes = bytes << 8 | static_cast<std::uint32_t>(from[i]);
  if (bytes > room) fail(ExitCode::data, "szip: the result is larger than the chunk");
  return bytes;
}

// Decodes into `to` and returns the number of valid bytes.
std::size_t decode_stream(const SzipValues& szip, std::uint32_t width,
                          std::span<const std::byte> from, std::span<std::byte> to) {
  constexpr std::uint32_t most_significant_first = 16, nearest_neighbour = 32;
  aec_stream stream{};
  stream.next_in = reinterpret_cast<const unsigned char*>(from.data());
  stream.avail_in = from.size();
  stream.next_out = reinterpret_cast<unsigned char*>(to.data());
  stream.avail_out = to.size();
  stream.bits_per_sample = width * 8;
  stream.block_size = szip.block;
  stream.rsi = (szip.line + szip.block - 1) / szip.block;
  stream.flags = ((szip.options & most_significant_first) != 0 ? unsigned{AEC_DATA_MSB} : 0U) |
                 ((szip.options & nearest_neighbour) != 0 ? unsigned{AEC_DATA_PREPROCESS} : 0U);
  const int status = aec_buffer_decode(&stream);
  if (status != AEC_OK) fail(ExitCode::data, "szip: it is not a valid stream (libaec: {})", status);
  return stream.total_out;
}

}  // namespace

std::size_t unszip(std::span<const std::uint32_t> values, std::span<const std::byte> from,
                   std::span<std::byte> to, std::vector<std::byte>& scratch) {
  const SzipValues szip = values_of(values);
  const std::size_t bytes = decoded_bytes(from, to.size());
  from = from.subspan(4);
  if (bytes == 0) return 0;
  // Bytes of wide elements are separated first, and coded as elements.
  const bool apart = szip.bits > 16;
  const std::uint32_t width = apart ? 1 : szip.bits / 8;
  const std::size_t line = std::size_t{szip.line} * width;
  const std::size_t blocks = (szip.line + szip.block - 1) / szip.block;
  const std::size_t padded = blocks * szip.block * width;  // lines are padded to whole blocks
  const std::size_t lines = (bytes + line - 1) / line;
  const bool direct = padded == line && !apart;
  const std::size_t room = padded == line ? bytes : lines * padded;
  if (!direct && scratch.size() < room) scratch.resize(room);
  const std::span<std::byte> decoded = direct ? to.first(bytes) : std::span(scratch).first(room);
  const std::size_t wanted = (lines - 1) * padded + (bytes - (lines - 1) * line);
  if (decode_stream(szip, width, from, decoded) < wanted)
    fail(ExitCode::data, "szip: the data ends early");
  if (direct) return bytes;
  for (std::size_t i = 1; i < lines && padded != line; ++i)
    std::memmove(&decoded[i * line], &decoded[i * padded], std::min(line, bytes - i * line));
  return unshuffle(apart ? szip.bits / 8 : 1, decoded.first(bytes), to);
}

}  // namespace trireme
