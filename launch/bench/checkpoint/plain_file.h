// SPDX-License-Identifier: Apache-2.0
// Plain disk I/O, the reference of `trireme bench checkpoint`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// Writes `bytes` from one warm buffer of 1 MiB through the page cache, then fsync, like
// `dd if=/dev/zero bs=1M conv=fsync`. Raises ExitCode::checkpoint.
void write_plainly(const std::string& path, std::uint64_t bytes);

// Reads the whole file in calls of 1 MiB to memory that holds all of it. The constructor allocates
// and touches the memory, so that read() only reads.
class PlainReader {
 public:
  explicit PlainReader(std::uint64_t bytes) : memory_(bytes) {}
  void read(const std::string& path);

 private:
  std::vector<std::byte> memory_;
};

// Evicts the files in `directory` and below from this host's page cache; they must be clean
// (fsync). False if one stays: a memory file system, or another process maps it.
bool drop_page_cache(const std::string& directory);

// Share of the pages of the files in `directory` and below that this host's page cache holds.
[[nodiscard]] double cached_share(const std::string& directory);

}  // namespace trireme
