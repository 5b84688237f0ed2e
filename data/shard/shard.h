// SPDX-License-Identifier: Apache-2.0
// The metadata of a shard file. FORMAT.md specifies the file format.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/dtype.h"

namespace trireme {

enum class DataKind : std::uint8_t { tokens, images };

[[nodiscard]] std::string_view name_of(DataKind kind);

// Tokens with a loss mask have the later version: older programs would ignore the mask and train on
// all of them.
inline constexpr std::uint64_t shard_version = 1, masked_shard_version = 2;
// Texts with targets of their own, which older programs would take for running text.
inline constexpr std::uint64_t labelled_shard_version = 3;

// Bytes of token data per checksum; for images a block is one image, which is read whole anyway.
// The first window in a block reads all of it: 1.67 times the bytes at context 1,024; with blocks
// of 64 kB a rank of 512 would read 33 times its share.
inline constexpr std::uint64_t token_block_bytes = 4096;
// For document offsets, labels and loss masks.
inline constexpr std::uint64_t index_block_bytes = 4096;
// Limits that a reader accepts for tokens, powers of two.
inline constexpr std::uint64_t shortest_cut_block = 512, longest_cut_block = 65536;

// Replaces the target of a token that the loss mask excludes.
inline constexpr std::int32_t masked_target = -1;

// Loss mask: token i is bit i % 8, from the lowest, of byte i / 8.
[[nodiscard]] constexpr std::uint64_t loss_mask_bytes(std::uint64_t tokens) {
  return tokens / 8 + (tokens % 8 != 0 ? 1 : 0);
}

// What a text of such a shard has: a class, numbers, one number from 0 to 1 for each label, or a
// class for each of its tokens.
enum class TextTargets : std::uint8_t { none, label, values, labels, token_classes };
[[nodiscard]] std::string_view name_of(TextTargets targets);

class BlockChecks;

struct ShardHeader {
  DataKind kind = DataKind::tokens;
  DType dtype = DType::u16;  // tokens: u16 or u32; images: u8
  std::uint64_t shard_index = 0;
  std::uint64_t shard_count = 1;
  std::uint64_t count = 0;  // tokens or images in this shard
  // tokens
  std::uint64_t documents = 0;  // parts of documents in this shard
  bool continues = false;       // the first part continues from an earlier shard
  std::string tokenizer;        // "bytes", or Tokenizer::name()
  std::uint64_t vocabulary = 0;
  // Number of target tokens; nothing: there is no loss mask and all are targets.
  std::optional<std::uint64_t> counted = std::nullopt;
  TextTargets targets = TextTargets::none;
  std::uint64_t target_width = 0;  // 32-bit numbers of a text; of token classes 1, of a token
  std::uint64_t longest = 0;       // tokens of the longest text that the data set may hold
  // images, and texts with targets that have names
  std::vector<std::string> classes{};
  // images
  std::uint64_t height = 0;
  std::uint64_t width = 0;
  std::uint64_t channels = 0;
  // XXH3-64 of the payload: data, then offsets or labels, then the loss mask or targets.
  std::uint64_t payload_checksum = 0;

  // Of texts, all together.
  [[nodiscard]] std::uint64_t target_count() const {
    return (targets == TextTargets::token_classes ? count : documents) * target_width;
  }
  // Targets are f32, not i32.
  [[nodiscard]] bool has_float_targets() const {
    return targets == TextTargets::values || targets == TextTargets::labels;
  }
};

// A shard that passed all checks of open_shard.
struct Shard {
  std::string path;
  ShardHeader header;
  std::uint64_t header_checksum = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t data_offset = 0;   // byte of the first token or image
  std::uint64_t index_offset = 0;  // byte of the first document offset (u64) or label (i32)
  std::uint64_t mask_offset = 0;   // byte of the loss mask, a bit per token, or of the targets
  std::uint64_t block_bytes = 0;   // data bytes per block checksum; 0: there are none
  std::uint64_t table_offset = 0;  // byte of the first block checksum (u32)
  std::uint64_t table_checksum = 0;
  // If the shard has a table; copies of this object share the verified state.
  std::shared_ptr<BlockChecks> blocks = nullptr;

  [[nodiscard]] std::uint64_t element_bytes() const;  // of one token or one image
  [[nodiscard]] std::uint64_t data_bytes() const { return header.count * element_bytes(); }
  [[nodiscard]] std::uint64_t index_bytes() const;
  [[nodiscard]] std::uint64_t data_blocks() const {
    return block_bytes == 0 ? 0 : (data_bytes() + block_bytes - 1) / block_bytes;
  }
  [[nodiscard]] std::uint64_t index_blocks() const {
    return (index_bytes() + index_block_bytes - 1) / index_block_bytes;
  }
  [[nodiscard]] std::uint64_t mask_bytes() const {
    if (header.targets != TextTargets::none) return header.target_count() * sizeof(std::int32_t);
    return header.counted ? loss_mask_bytes(header.count) : 0;
  }
  [[nodiscard]] std::uint64_t mask_blocks() const {
    return (mask_bytes() + index_block_bytes - 1) / index_block_bytes;
  }
  [[nodiscard]] std::uint64_t blocks_in_all() const {
    return data_blocks() + index_blocks() + mask_blocks();
  }
};

// The attributes as stored, in order, without header_xxh3.
using AttributeValue = std::variant<std::uint64_t, std::string>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;
[[nodiscard]] Attributes attributes_of(const ShardHeader& header);
// XXH3-64 of "name=value\n" over all attributes, in order.
[[nodiscard]] std::uint64_t header_checksum(const ShardHeader& header);

// The spelling in the file, "uint16" <-> DType::u16. Parsing an unknown spelling gives DType::f32.
[[nodiscard]] std::string_view stored_name(DType dtype);
[[nodiscard]] DType dtype_from_stored_name(std::string_view name);

[[nodiscard]] std::string join_classes(const std::vector<std::string>& classes);
[[nodiscard]] std::vector<std::string> split_classes(std::string_view joined);
// Raises ExitCode::data for a name that the file cannot hold: with a line break or NUL.
void require_class_names(const std::string& source, const std::vector<std::string>& classes);

// "shard_00007.h5"
[[nodiscard]] std::string shard_file_name(std::uint64_t index);

// Asks the HDF5 library in a child (hdf5/child.h) about `path` and validates all but the payload's
// bytes. Raises ExitCode::data naming the file, the problem and the fix.
[[nodiscard]] Shard open_shard(const std::string& path);

}  // namespace trireme
