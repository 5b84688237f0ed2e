// SPDX-License-Identifier: Apache-2.0
// Writes the wire format of protocol buffers (https://protobuf.dev/programming-guides/encoding) for
// the few messages that we only write; the code that fills a message has its field numbers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

class ProtobufWriter {
 public:
  // int32, int64, uint32, uint64, bool, enum; negative numbers take ten bytes.
  void integer(int field, std::int64_t value) {
    tag(field, Wire::varint);
    varint(static_cast<std::uint64_t>(value));
  }
  void float64(int field, double value) {
    tag(field, Wire::fixed64);
    little_endian(std::bit_cast<std::uint64_t>(value));
  }
  void float32(int field, float value) {
    tag(field, Wire::fixed32);
    little_endian(std::bit_cast<std::uint32_t>(value));
  }
  // fixed64
  void fixed(int field, std::uint64_t value) {
    tag(field, Wire::fixed64);
    little_endian(value);
  }
  // string and bytes; strings must be UTF-8.
  void text(int field, std::string_view value) {
    tag(field, Wire::bytes);
    varint(value.size());
    bytes_ += value;
  }
  // repeated double
  void packed(int field, std::span<const double> values) {
    tag(field, Wire::bytes);
    varint(8 * values.size());
    for (const double value : values)
      little_endian(std::bit_cast<std::uint64_t>(value));
  }
  // A nested message; `fill()` adds its fields to this writer.
  template <typename Fill>
  void message(int field, Fill fill) {
    tag(field, Wire::bytes);
    const std::size_t start = bytes_.size();
    fill();
    // The length precedes the content; messages are short, so moving their bytes is cheap.
    const std::string content = bytes_.substr(start);
    bytes_.resize(start);
    varint(content.size());
    bytes_ += content;
  }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  void clear() { bytes_.clear(); }

 private:
  enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  void tag(int field, Wire wire) {
    varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire));
  }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  template <typename Unsigned>
  void little_endian(Unsigned value) {
    for (std::size_t byte = 0; byte < sizeof value; ++byte)
      bytes_ += static_cast<char>(value >> (8 * byte));
  }

  std::string bytes_;
};

}  // namespace trireme
