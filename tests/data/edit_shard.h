// SPDX-License-Identifier: Apache-2.0
// Shards as older packers wrote them, and shards with a bit changed.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstdint>
#include <string>

#include "tests/support/temporary_directory.h"

namespace trireme::test {

inline constexpr const char* block_attributes[] = {"block_bytes", "block_checksums_xxh3"};

// Leaves the file of a packer without block checksums.
inline void remove_block_checksums(const std::string& path) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  for (const char* const name : block_attributes)
    ASSERT_GE(H5Adelete(file, name), 0);
  ASSERT_GE(H5Ldelete(file, "block_checksums", H5P_DEFAULT), 0);
  ASSERT_GE(H5Fclose(file), 0);
}

inline void flip_bit(const std::string& path, std::uint64_t byte, unsigned bit = 0) {
  std::string bytes = read_text(path);
  ASSERT_LT(byte, bytes.size());
  bytes[byte] = static_cast<char>(bytes[byte] ^ (1 << bit));
  write_text(path, bytes);
}

}  // namespace trireme::test
