// SPDX-License-Identifier: Apache-2.0
// Checksums of a shard's payload in small blocks, each checked before the first of its bytes is
// used. The format is in FORMAT.md.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/shard/data_file.h"
#include "data/shard/shard.h"

namespace trireme {

// The lower half of XXH3-64.
[[nodiscard]] std::uint32_t block_checksum(std::span<const std::byte> block);

// XXH3-64 of a table of block checksums and of what it belongs to.
[[nodiscard]] std::uint64_t table_checksum(std::uint64_t block_bytes,
                                           std::uint64_t payload_checksum,
                                           std::span<const std::uint32_t> table);

// Cuts a stream into blocks and keeps their checksums.
class BlockSums {
 public:
  void add(std::span<const std::byte> bytes, std::uint64_t block_bytes);
  void end_block();  // the last one of a data set may be shorter
  [[nodiscard]] const std::vector<std::uint32_t>& table() const { return table_; }

 private:
  std::vector<std::byte> begun_;
  std::vector<std::uint32_t> table_;
};

// The table of one shard, and which of its blocks have been found right since it was opened. Any
// number of threads may use it at once; two that meet in a block may both check it.
class BlockChecks {
 public:
  // Reads the table. `shard` has one (block_bytes > 0). Raises ExitCode::data when it is damaged.
  BlockChecks(const Shard& shard, const InputFile& file);

  // Fills `to` with the data from byte `first` of it on, any tokens or whole images, and checks
  // every block of it that has not been checked before. `sample`: the sample of the data set that
  // they are read for, if any.
  // Raises ExitCode::data with file, block, elements, sample and both checksums. A damaged copy of
  // the file (data_file.h) is left for the file itself.
  void read(const DataFile& file, std::uint64_t first, std::span<std::byte> to,
            std::optional<std::int64_t> sample);
  // The same of the document offsets or labels, a few of them: the block or two in which they lie
  // are read whole where they have not been checked.
  void read_index(const DataFile& file, std::uint64_t first, std::span<std::byte> to,
                  std::optional<std::int64_t> sample);
  // The same of the loss mask.
  void read_mask(const DataFile& file, std::uint64_t first, std::span<std::byte> to,
                 std::optional<std::int64_t> sample);
  // The whole of the document offsets or labels, of the loss mask.
  void check_index(std::span<const std::byte> index) const { check_whole(index_, index); }
  void check_mask(std::span<const std::byte> mask) const { check_whole(mask_, mask); }

  // Of all blocks of `bytes` > 0 bytes of the data from byte `first` on.
  [[nodiscard]] bool are_verified(std::uint64_t first, std::uint64_t bytes) const;

  // Blocks are those of the data, then those of the index, then those of the mask.
  [[nodiscard]] bool matches(std::uint64_t block, std::span<const std::byte> bytes) const {
    return block_checksum(bytes) == table_[block];
  }
  // Raises ExitCode::data: `bytes` are not what the packer wrote as this block. `others`: in
  // words, where all blocks have been checked.
  [[noreturn]] void refuse(std::uint64_t block, std::span<const std::byte> bytes,
                           std::optional<std::int64_t> sample,
                           const std::optional<std::string>& others) const;

 private:
  // What lies behind the data, in blocks of index_block_bytes.
  struct Part {
    std::uint64_t offset = 0, bytes = 0, first_block = 0;
  };
  [[nodiscard]] bool is_verified(std::uint64_t block) const {
    return ((verified_[block / 64].load(std::memory_order_relaxed) >> (block % 64)) & 1) != 0;
  }
  [[nodiscard]] std::uint64_t block_of(std::uint64_t byte) const {
    return cut_ ? byte >> shift_ : byte / block_bytes_;
  }
  [[nodiscard]] std::uint64_t end_of(std::uint64_t block) const {
    return std::min((block + 1) << shift_, data_bytes_);
  }
  void check(std::uint64_t block, std::span<const std::byte> bytes,
             std::optional<std::int64_t> sample);
  // Again from the file itself where what is wrong may be a copy's.
  template <typename Read>
  static void with_fallback(const DataFile& file, Read&& read);
  void read_part(const Part& part, const DataFile& file, std::uint64_t first,
                 std::span<std::byte> to, std::optional<std::int64_t> sample);
  void read_part_block(const Part& part, const DataFile& file, std::uint64_t first,
                       std::span<std::byte> to, std::optional<std::int64_t> sample);
  void check_whole(const Part& part, std::span<const std::byte> bytes) const;
  // "tokens 4 to 7", of a block.
  [[nodiscard]] std::string elements_of(std::uint64_t block, std::uint64_t bytes) const;
  void read_once(const DataFile& file, std::uint64_t first, std::span<std::byte> to,
                 std::optional<std::int64_t> sample);
  void read_cut(const DataFile& file, std::uint64_t first, std::span<std::byte> to,
                std::optional<std::int64_t> sample);

  Shard shard_;
  std::uint64_t block_bytes_;
  std::uint64_t data_bytes_;
  std::uint64_t data_blocks_;
  Part index_, mask_;
  bool cut_;   // samples begin and end inside of blocks, whose size is a power of two
  int shift_;  // its exponent
  std::vector<std::uint32_t> table_;
  std::vector<std::atomic<std::uint64_t>> verified_;
};

}  // namespace trireme
