// SPDX-License-Identifier: Apache-2.0
// Parses messages by the wire format alone, independently of the writer.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::test {

class Message {
 public:
  explicit Message(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::uint64_t tag = varint(bytes);
      Value value;
      switch (tag & 7) {
        case 0:
          value.bits = varint(bytes);
          break;
        case 1:
          value.bits = fixed(bytes, 8);
          break;
        case 5:
          value.bits = fixed(bytes, 4);
          break;
        case 2:
          value.bytes = take(bytes, varint(bytes));
          break;
        default:
          throw std::runtime_error("unknown wire type");
      }
      fields_[tag >> 3].push_back(value);
    }
  }

  [[nodiscard]] bool has(std::uint64_t field) const { return fields_.count(field) != 0; }
  [[nodiscard]] std::string text(std::uint64_t field) const {
    return has(field) ? fields_.at(field)[0].bytes : "";
  }
  [[nodiscard]] std::vector<std::string> texts(std::uint64_t field) const {
    std::vector<std::string> all;
    if (has(field))
      for (const Value& value : fields_.at(field))
        all.push_back(value.bytes);
    return all;
  }
  [[nodiscard]] std::int64_t integer(std::uint64_t field) const {
    return has(field) ? static_cast<std::int64_t>(fields_.at(field)[0].bits) : 0;
  }
  [[nodiscard]] double float64(std::uint64_t field) const {
    return std::bit_cast<double>(fields_.at(field).at(0).bits);
  }
  [[nodiscard]] float float32(std::uint64_t field) const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(fields_.at(field).at(0).bits));
  }
  [[nodiscard]] Message message(std::uint64_t field) const { return Message(text(field)); }
  [[nodiscard]] std::vector<Message> messages(std::uint64_t field) const {
    std::vector<Message> all;
    if (has(field))
      for (const Value& value : fields_.at(field))
        all.emplace_back(value.bytes);
    return all;
  }

 private:
  struct Value {
    std::uint64_t bits = 0;
    std::string bytes{};
  };
  static std::string take(std::string_view& bytes, std::uint64_t count) {
    if (count > bytes.size()) throw std::runtime_error("a message ends early");
    const std::string taken(bytes.substr(0, count));
    bytes.remove_prefix(count);
    return taken;
  }
  static std::uint64_t fixed(std::string_view& bytes, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, take(bytes, size).data(), size);
    return value;
  }
  static std::uint64_t varint(std::string_view& bytes) {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(bytes, 1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }

  std::map<std::uint64_t, std::vector<Value>> fields_;
};

}  // namespace trireme::test
