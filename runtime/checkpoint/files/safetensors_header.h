// SPDX-License-Identifier: Apache-2.0
// The JSON header of a safetensors file as values; private to this module.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/files/safetensors.h"

namespace trireme::safetensors {

inline constexpr std::uint64_t length_bytes = 8;  // the header's length, little-endian
inline constexpr std::uint64_t header_limit = 100'000'000;

// One element type of the format; `ours` is empty if no DType corresponds.
struct ElementType {
  std::string_view name;
  std::uint64_t bytes;
  std::optional<DType> ours;
};
// nullptr for unknown names.
[[nodiscard]] const ElementType* find_element_type(std::string_view name);
[[nodiscard]] const ElementType& element_type(DType type);
// Rank in the reference writer's order, narrow alignment first.
[[nodiscard]] std::size_t order_of(DType type);

struct Entry {
  std::string name;
  std::string dtype;  // as the file spells it
  std::vector<std::uint64_t> extents;
  std::uint64_t begin = 0;  // offsets into the data, which follows the header
  std::uint64_t end = 0;    // exclusive
};

struct Header {
  std::vector<Entry> entries;  // ordered by begin, then end
  std::map<std::string, std::string> metadata;
};

// Parses the header's text and checks it against the number of data bytes in the file. `path` is
// for messages.
[[nodiscard]] Header parse_header(std::string_view text, std::uint64_t data_bytes,
                                  const std::string& path);

// The header's bytes: length, JSON and padding. `entries` are in data order.
[[nodiscard]] std::string make_header(std::span<const Entry> entries,
                                      const std::map<std::string, std::string>& metadata,
                                      const std::string& path);

}  // namespace trireme::safetensors
