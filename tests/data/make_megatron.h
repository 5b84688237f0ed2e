// SPDX-License-Identifier: Apache-2.0
// Files as Megatron-LM writes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::test {

template <typename Value>
void append_raw(std::string& bytes, Value value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(Value));
}

// Bytes per token of a type.
inline std::int64_t megatron_bytes(std::uint8_t type) {
  switch (type) {
    case 1:
      return 1;
    case 4:
      return 4;
    case 5:
      return 8;
    default:
      return 2;
  }
}

// An .idx file of sequences of these lengths; documents begin at `bounds`, which include the end.
inline std::string megatron_index(const std::vector<std::int32_t>& lengths,
                                  const std::vector<std::int64_t>& bounds, std::uint8_t type) {
  std::string bytes("MMIDIDX\0\0", 9);
  append_raw(bytes, std::uint64_t{1});
  append_raw(bytes, type);
  append_raw(bytes, std::uint64_t{lengths.size()});
  append_raw(bytes, std::uint64_t{bounds.size()});
  for (const std::int32_t length : lengths)
    append_raw(bytes, length);
  std::int64_t place = 0;
  for (const std::int32_t length : lengths) {
    append_raw(bytes, place);
    place += length * megatron_bytes(type);
  }
  for (const std::int64_t bound : bounds)
    append_raw(bytes, bound);
  return bytes;
}

template <typename Token>
std::string megatron_data(const std::vector<std::int64_t>& tokens) {
  std::string bytes;
  for (const std::int64_t token : tokens)
    append_raw(bytes, static_cast<Token>(token));
  return bytes;
}

}  // namespace trireme::test
