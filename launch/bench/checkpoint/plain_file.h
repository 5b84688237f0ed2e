// SPDX-License-Identifier: Apache-2.0
// What a disk does without us: the other side of `trireme bench checkpoint`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// `bytes` from one warm buffer of 1 MiB through the page cache, then fsync: what
// `dd if=/dev/zero bs=1M conv=fsync` does. Raises ExitCode::checkpoint.
void write_plainly(const std::string& path, std::uint64_t bytes);

// The whole file, in calls of 1 MiB, to memory that holds all of it. The constructor makes the
// memory, and touches it, so that read() does nothing but read.
class PlainReader {
 public:
  explicit PlainReader(std::uint64_t bytes) : memory_(bytes) {}
  void read(const std::string& path);

 private:
  std::vector<std::byte> memory_;
};

// Makes the kernel of this host forget what it holds of the files in `directory` and below; they
// must be clean (fsync). False where one stays nonetheless: a file system in memory, another
// process that maps it.
bool drop_page_cache(const std::string& directory);

// Share of the pages of the files in `directory` and below that this host's page cache holds.
[[nodiscard]] double cached_share(const std::string& directory);

}  // namespace trireme
