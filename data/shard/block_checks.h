// SPDX-License-Identifier: Apache-2.0
// Checksums of a shard's payload in small blocks; each block is checked before its first use.
// FORMAT.md defines the format.
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

// XXH3-64 of a block checksum table and its parameters.
[[nodiscard]] std::uint64_t table_checksum(std::uint64_t block_bytes,
                                           std::uint64_t payload_checksum,
                                           std::span<const std::uint32_t> table);

// Cuts a stream into blocks and collects their checksums.
class BlockSums {
 public:
  void add(std::span<const std::byte> bytes, std::uint64_t block_bytes);
  void end_block();  // a data set's last block may be shorter
  [[nodiscard]] const std::vector<std::uint32_t>& table() const { return table_; }

 private:
  std::vector<std::byte> begun_;
  std::vector<std::uint32_t> table_;
};

// One shard's table, and which blocks were verified since it was opened. Thread-safe; two threads
// in the same block may both check it.
class BlockChecks {
 public:
  // Reads the table; `shard` must have one (block_bytes > 0). Raises ExitCode::data for damage.
  BlockChecks(const Shard& shard, const InputFile& file);

  // Fills `to` with the data from byte `first` on (any tokens, or whole images), and checks each of
  // its blocks that was not checked before. `sample`: the sample that is read, for messages. Raises
  // ExitCode::data with file, block, elements, sample and both checksums. A damaged copy
  // (data_file.h) is dropped for the file itself.
  void read(const DataFile& file, std::uint64_t first, std::span<std::byte> to,
            std::optional<std::int64_t> sample);
  // The same for a few document offsets or labels: unchecked blocks are read whole.
  void read_index(const DataFile& file, std::uint64_t first, std::span<std::byte> to,
                  std::optional<std::int64_t> sample);
  // The same for the loss mask.
  void read_mask(const DataFile& file, std::uint64_t first, std::span<std::byte> to,
                 std::optional<std::int64_t> sample);
  // For all document offsets or labels, or the whole loss mask.
  void check_index(std::span<const std::byte> index) const { check_whole(index_, index); }
  void check_mask(std::span<const std::byte> mask) const { check_whole(mask_, mask); }

  // Whether all blocks of `bytes` > 0 bytes of data from byte `first` on are verified.
  [[nodiscard]] bool are_verified(std::uint64_t first, std::uint64_t bytes) const;

  // Block numbers: those of the data, then of the index, then of the mask.
  [[nodiscard]] bool matches(std::uint64_t block, std::span<const std::byte> bytes) const {
    return block_checksum(bytes) == table_[block];
  }
  // Raises ExitCode::data: `bytes` are not what the packer wrote as this block. `others`: text
  // about the other blocks, if all were checked.
  [[noreturn]] void refuse(std::uint64_t block, std::span<const std::byte> bytes,
                           std::optional<std::int64_t> sample,
                           const std::optional<std::string>& others) const;

 private:
  // What follows the data, in blocks of index_block_bytes.
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
  // Reads again from the file itself if a copy may be wrong.
  template <typename Read>
  static void with_fallback(const DataFile& file, Read&& read);
  void read_part(const Part& part, const DataFile& file, std::uint64_t first,
                 std::span<std::byte> to, std::optional<std::int64_t> sample);
  void read_part_block(const Part& part, const DataFile& file, std::uint64_t first,
                       std::span<std::byte> to, std::optional<std::int64_t> sample);
  void check_whole(const Part& part, std::span<const std::byte> bytes) const;
  // For messages: "tokens 4 to 7".
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
  bool cut_;   // samples begin and end inside blocks, whose size is a power of two
  int shift_;  // its exponent
  std::vector<std::uint32_t> table_;
  std::vector<std::atomic<std::uint64_t>> verified_;
};

}  // namespace trireme
