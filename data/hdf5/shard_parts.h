// SPDX-License-Identifier: Apache-2.0
// Pieces shared by the sources that read and write shards through the HDF5 library.
#pragma once

#include <string>
#include <string_view>

#include "data/hdf5/metadata.h"
#include "data/shard/shard.h"
#include "runtime/hdf5/handle.h"

namespace trireme::hdf5 {

// Raises ExitCode::data: "<path>: <what>; <how to get a good shard>".
[[noreturn]] void refuse(const std::string& path, std::string_view what);

// Checks the attributes of the root group; gives the stored header checksum, which must equal the
// computed one.
[[nodiscard]] ShardHeader read_header(const std::string& path, const RootGroup& root,
                                      std::uint64_t& checksum);
// The attributes of the table of block checksums. False where the shard has none of it.
[[nodiscard]] bool read_block_attributes(const RootGroup& root, Shard& shard);
// Writes all attributes and header_xxh3.
void write_header(const std::string& path, hid_t file, const ShardHeader& header);
void write_block_attributes(const std::string& path, hid_t file, std::uint64_t block_bytes,
                            std::uint64_t table_checksum);

}  // namespace trireme::hdf5
