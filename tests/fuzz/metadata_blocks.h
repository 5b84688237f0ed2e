// SPDX-License-Identifier: Apache-2.0
// The blocks of an HDF5 file's metadata that carry a checksum, found by their signatures and the
// lengths that they state, so that a mutated file can be given right checksums again.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace trireme::fuzz {

struct MetadataBlock {
  std::size_t first = 0;
  std::size_t bytes = 0;
  std::size_t checksum = 0;  // where it stands: the last four bytes, or inside and counted as zero
};

// Those of `file` that lie inside of it; a superblock first.
[[nodiscard]] std::vector<MetadataBlock> metadata_blocks(const std::string& file);

// Whether the stored checksum is right.
[[nodiscard]] bool matches(const std::string& file, const MetadataBlock& block);
// Stores the right one.
void repair(std::string& file, const MetadataBlock& block);

}  // namespace trireme::fuzz
