// SPDX-License-Identifier: Apache-2.0
// All shards of a data set, validated against each other and open for pread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/shard/data_file.h"
#include "data/shard/shard.h"

namespace trireme {

struct ShardList {
  std::vector<std::string> paths;  // in order
  bool complete = true;            // a whole directory; false for a single shard by its own path
};

// The shard files of a directory in order, or the single file `path`. `split` names the
// subdirectory to search if `path` has no shards. Raises ExitCode::data if there are none or the
// numbering has a gap.
[[nodiscard]] ShardList list_shards(const std::string& path, const std::string& split);

class ShardSet {
 public:
  // Raises ExitCode::data if a shard is invalid or the shards disagree in kind, dtype, tokenizer,
  // vocabulary, image size, classes or their number. `check_blocks` = false ignores block
  // checksums, to measure their cost.
  explicit ShardSet(const ShardList& list, bool check_blocks = true);

  [[nodiscard]] const std::vector<Shard>& shards() const { return shards_; }
  [[nodiscard]] const DataFile& file(std::size_t shard) const { return files_[shard]; }
  [[nodiscard]] std::uint64_t fingerprint() const { return fingerprint_; }
  [[nodiscard]] std::uint64_t elements() const {
    return starts_.back();
  }  // tokens or images of all shards
  // Fills `to` with data (tokens, images) of `shard` from byte `first` on, checked against its
  // block checksums if it has any. Errors name `sample`.
  void read(std::size_t shard, std::uint64_t first, std::span<std::byte> to,
            std::optional<std::int64_t> sample) const;
  // The same for its document offsets or labels.
  void read_index(std::size_t shard, std::uint64_t first, std::span<std::byte> to,
                  std::optional<std::int64_t> sample) const;
  // The same for its loss mask, which must exist.
  void read_mask(std::size_t shard, std::uint64_t first, std::span<std::byte> to,
                 std::optional<std::int64_t> sample) const;
  // The shard that holds element `position` of the concatenation.
  [[nodiscard]] std::size_t shard_of(std::uint64_t position) const;
  // The position of the first element of `shard`.
  [[nodiscard]] std::uint64_t start_of(std::size_t shard) const { return starts_[shard]; }

 private:
  std::vector<Shard> shards_;
  std::vector<DataFile> files_;
  std::vector<std::uint64_t> starts_;  // one more than shards
  std::uint64_t fingerprint_ = 0;
};

}  // namespace trireme
