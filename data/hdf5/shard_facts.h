// SPDX-License-Identifier: Apache-2.0
// What the HDF5 library says of a packed shard: the attributes and data sets of its root group.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct ShardAttribute {
  enum class Kind : std::uint8_t { other, not_scalar, integer, text } kind = Kind::other;
  std::string name{};
  std::uint64_t number = 0;  // of an integer; 0 where it is negative
  std::string text{};        // of fixed-length text
};

struct ShardDataset {
  static constexpr std::uint64_t no_address = ~std::uint64_t{0};

  std::string name{};
  std::string storage{};  // contiguous, compact, chunked, virtual; link; empty: it is no data set
  std::string type{};     // "uint16", "big-endian uint16", "other"
  bool filtered = false;
  bool external = false;
  std::vector<std::uint64_t> extents{};
  std::uint64_t address = no_address;  // of contiguous storage
  std::uint64_t bytes = 0;
};

struct ShardFacts {
  std::vector<ShardAttribute> attributes{};
  std::vector<ShardDataset> datasets{};
};

// By the HDF5 library, which a file can crash: called in the child (child.h) alone. Raises
// ExitCode::data.
[[nodiscard]] ShardFacts read_shard_facts(const std::string& path);

// Bytes, and back. Raises ExitCode::data for bytes that end early.
void append_facts(std::string& to, ShardFacts facts);
[[nodiscard]] ShardFacts parse_facts(std::string_view bytes);

}  // namespace trireme
