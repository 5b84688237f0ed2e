// SPDX-License-Identifier: Apache-2.0
// Finds the checksummed metadata blocks of an HDF5 file by their signatures and stated lengths, to
// correct the checksums of a mutated file.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace trireme::fuzz {

struct MetadataBlock {
  std::size_t first = 0;
  std::size_t bytes = 0;
  std::size_t checksum = 0;  // its place: the last four bytes, or inside and counted as zero
};

// The blocks inside `file`; a superblock comes first.
[[nodiscard]] std::vector<MetadataBlock> metadata_blocks(const std::string& file);

// Whether the stored checksum is right.
[[nodiscard]] bool matches(const std::string& file, const MetadataBlock& block);
// Stores the correct checksum.
void repair(std::string& file, const MetadataBlock& block);

}  // namespace trireme::fuzz
