// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/trace/gzip_parts.h"

#include <zlib.h>

#include <array>
#include <cstring>

namespace trireme {
namespace {

// The fastest: it makes traces 15 times smaller, and the run waits for it.
constexpr int level = 1;
constexpr int raw_window = -15;
constexpr int memory_level = 8;
constexpr std::size_t piece = std::size_t{1} << 18U;
constexpr std::string_view header{"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff", 10};
constexpr std::string_view last_block{"\x03\x00", 2};

std::string little_endian(std::uint32_t value) {
  std::string bytes;
  for (unsigned shift = 0; shift < 32; shift += 8)
    bytes += static_cast<char>(value >> shift & 0xffU);
  return bytes;
}

std::uint32_t crc32_of(std::string_view text) {
  uLong sum = ::crc32(0, nullptr, 0);
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), piece)))
    sum = ::crc32(sum, reinterpret_cast<const Bytef*>(text.data()),
                  static_cast<uInt>(std::min(text.size(), piece)));
  return static_cast<std::uint32_t>(sum);
}

}  // namespace

DeflatedText deflate_text(std::string_view text) {
  DeflatedText out{.bytes = {}, .checksum = crc32_of(text), .length = text.size()};
  z_stream stream{};
  if (::deflateInit2(&stream, level, Z_DEFLATED, raw_window, memory_level, Z_DEFAULT_STRATEGY) !=
      Z_OK)
    library_failed("deflateInit2", "no memory");
  std::string buffer(piece, '\0');
  do {
    const std::size_t bytes = std::min(text.size(), piece);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // NOLINT: zlib's
    stream.avail_in = static_cast<uInt>(bytes);
    text.remove_prefix(bytes);
    do {
      stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
      stream.avail_out = static_cast<uInt>(buffer.size());
      static_cast<void>(::deflate(&stream, text.empty() ? Z_FULL_FLUSH : Z_NO_FLUSH));
      out.bytes.append(buffer, 0, buffer.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  } while (!text.empty());
  ::deflateEnd(&stream);
  return out;
}

std::string pack(const DeflatedText& text) {
  std::string packed(sizeof(text.checksum) + sizeof(text.length), '\0');
  std::memcpy(packed.data(), &text.checksum, sizeof(text.checksum));
  std::memcpy(packed.data() + sizeof(text.checksum), &text.length, sizeof(text.length));
  return packed + text.bytes;
}

DeflatedText unpack(std::string_view packed) {
  DeflatedText text;
  constexpr std::size_t head = sizeof(text.checksum) + sizeof(text.length);
  if (packed.size() < head)
    fail(ExitCode::internal, "a part of a trace of {} bytes", packed.size());
  std::memcpy(&text.checksum, packed.data(), sizeof(text.checksum));
  std::memcpy(&text.length, packed.data() + sizeof(text.checksum), sizeof(text.length));
  text.bytes = packed.substr(head);
  return text;
}

GzipFile::GzipFile(const std::string& path) : file_(path, ExitCode::config) {
  file_.write(header);
}

void GzipFile::write(const DeflatedText& text) {
  file_.write(text.bytes);
  checksum_ = static_cast<std::uint32_t>(
      ::crc32_combine(checksum_, text.checksum, static_cast<z_off_t>(text.length)));
  length_ += text.length;
}

void GzipFile::commit() {
  file_.write(last_block);
  file_.write(little_endian(checksum_));
  file_.write(little_endian(static_cast<std::uint32_t>(length_)));
  file_.commit();
}

}  // namespace trireme
