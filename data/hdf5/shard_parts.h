// SPDX-License-Identifier: Apache-2.0
// Shared by the sources that read and write shards through the HDF5 library.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "data/hdf5/shard_facts.h"
#include "data/shard/shard.h"
#include "runtime/hdf5/handle.h"

namespace trireme::hdf5 {

// Raises ExitCode::data: "<path>: <what>; <how to get a good shard>".
[[noreturn]] void refuse(const std::string& path, std::string_view what);
// The same for an error of the library, which names the path.
[[noreturn]] void refuse(const Error& error);

// The element with this name, or null.
template <typename Named>
[[nodiscard]] const Named* find_named(const std::vector<Named>& all, std::string_view name) {
  const auto at = std::ranges::find(all, name, &Named::name);
  return at == all.end() ? nullptr : &*at;
}

// Checks the attributes; returns the stored header checksum, which must equal the computed one.
[[nodiscard]] ShardHeader read_header(const std::string& path, const ShardFacts& facts,
                                      std::uint64_t& checksum);
// Reads the attributes of the block checksum table. False if the shard has none.
[[nodiscard]] bool read_block_attributes(const ShardFacts& facts, Shard& shard);
// Writes all attributes and header_xxh3.
void write_header(const std::string& path, hid_t file, const ShardHeader& header);
void write_block_attributes(const std::string& path, hid_t file, std::uint64_t block_bytes,
                            std::uint64_t table_checksum);

}  // namespace trireme::hdf5
