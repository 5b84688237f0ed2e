// SPDX-License-Identifier: Apache-2.0
// The HDF5 library's view of a packed shard: attributes and data sets of its root group.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct ShardAttribute {
  enum class Kind : std::uint8_t { other, not_scalar, integer, text } kind = Kind::other;
  std::string name{};
  std::uint64_t number = 0;  // integer value; 0 if it is negative
  std::string text{};        // of fixed-length text
};

struct ShardDataset {
  static constexpr std::uint64_t no_address = ~std::uint64_t{0};

  std::string name{};
  std::string storage{};  // contiguous, compact, chunked, virtual; link; empty: not a data set
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

// Uses the HDF5 library, which a file can crash: call it only in the child (child.h). Raises
// ExitCode::data.
[[nodiscard]] ShardFacts read_shard_facts(const std::string& path);

// Serialise and parse. Raises ExitCode::data for truncated bytes.
void append_facts(std::string& to, ShardFacts facts);
[[nodiscard]] ShardFacts parse_facts(std::string_view bytes);

// Version of the HDF5 library at run time, "1.10.8".
[[nodiscard]] std::string hdf5_version();

}  // namespace trireme
