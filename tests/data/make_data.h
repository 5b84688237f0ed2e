// SPDX-License-Identifier: Apache-2.0
// Small data sets made by the real writer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/shard/shard_writer.h"

namespace trireme::test {

// 0, 1, ..., count - 1, wrapped at `vocabulary`.
inline std::vector<std::uint32_t> counting_tokens(std::size_t count, std::uint32_t vocabulary) {
  std::vector<std::uint32_t> tokens(count);
  for (std::size_t i = 0; i < count; ++i)
    tokens[i] = static_cast<std::uint32_t>(i) % vocabulary;
  return tokens;
}

inline ShardHeader token_header(std::uint64_t count, std::uint64_t vocabulary,
                                DType dtype = DType::u16) {
  ShardHeader header;
  header.kind = DataKind::tokens;
  header.dtype = dtype;
  header.count = count;
  header.tokenizer = "bytes";
  header.vocabulary = vocabulary;
  return header;
}

inline void write_token_shard(const std::string& path, const ShardHeader& header,
                              const std::vector<std::uint32_t>& tokens,
                              std::vector<std::uint64_t> offsets = {},
                              const std::vector<std::byte>& loss_mask = {}) {
  if (offsets.empty()) offsets = {0, tokens.size()};
  ShardWriter writer(path, header);
  if (header.dtype == DType::u32) {
    writer.write(tokens.data(), tokens.size());
  } else {
    const std::vector<std::uint16_t> narrow(tokens.begin(), tokens.end());
    writer.write(narrow.data(), narrow.size());
  }
  writer.finish(offsets, loss_mask);
}

// Cuts `tokens` into shards of `shard_tokens`; the vocabulary is not checked here.
inline void write_token_dataset(const std::string& directory,
                                const std::vector<std::uint32_t>& tokens, std::size_t shard_tokens,
                                std::uint64_t vocabulary, DType dtype = DType::u16) {
  std::filesystem::create_directories(directory);
  const std::size_t shards = (tokens.size() - 1) / shard_tokens + 1;
  for (std::size_t i = 0; i < shards; ++i) {
    const std::size_t first = i * shard_tokens,
                      count = std::min(shard_tokens, tokens.size() - first);
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(first);
    ShardHeader header = token_header(count, vocabulary, dtype);
    header.shard_index = i;
    header.shard_count = shards;
    header.continues = i > 0;
    write_token_shard(directory + "/" + shard_file_name(i), header,
                      {begin, begin + static_cast<std::ptrdiff_t>(count)});
  }
}

inline ShardHeader image_header(std::uint64_t count, std::uint64_t side, std::uint64_t classes) {
  ShardHeader header;
  header.kind = DataKind::images;
  header.dtype = DType::u8;
  header.count = count;
  header.height = side;
  header.width = side;
  header.channels = 1;
  for (std::uint64_t i = 0; i < classes; ++i)
    header.classes.push_back("class " + std::to_string(i));
  return header;
}

// Image i of the data set is filled with i mod 251 and has label i mod classes.
inline void write_image_dataset(const std::string& directory, std::uint64_t count,
                                std::uint64_t shard_images, std::uint64_t side,
                                std::uint64_t classes) {
  std::filesystem::create_directories(directory);
  const std::uint64_t shards = (count - 1) / shard_images + 1;
  for (std::uint64_t s = 0; s < shards; ++s) {
    const std::uint64_t first = s * shard_images, size = std::min(shard_images, count - first);
    ShardHeader header = image_header(size, side, classes);
    header.shard_index = s;
    header.shard_count = shards;
    ShardWriter writer(directory + "/" + shard_file_name(s), header);
    std::vector<std::int32_t> labels;
    for (std::uint64_t i = first; i < first + size; ++i) {
      const std::vector<std::uint8_t> pixels(side * side, static_cast<std::uint8_t>(i % 251));
      writer.write(pixels.data(), 1);
      labels.push_back(static_cast<std::int32_t>(i % classes));
    }
    writer.finish(labels);
  }
}

}  // namespace trireme::test
