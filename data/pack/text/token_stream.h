// SPDX-License-Identifier: Apache-2.0
// Cuts a token stream into the shards of one data set.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/shard/shard_writer.h"

namespace trireme {

class TokenStream {
 public:
  // Writes `total` tokens (> 0) as shards of `shard_tokens` each (the last may be shorter) into
  // `directory`. Every id is below `vocabulary`.
  TokenStream(std::string directory, std::uint64_t total, std::uint64_t shard_tokens, DType dtype,
              std::string tokenizer = "bytes", std::uint64_t vocabulary = 256);

  // The next token starts a document. Tokens before the first call continue an earlier document.
  void begin_document() { at_document_start_ = true; }
  // Appends tokens of the stream's dtype, at most `total` in all. `counted`: a byte per token, 1
  // for targets; empty for a stream without a loss mask.
  void add(std::span<const std::byte> tokens, std::span<const std::byte> counted = {});
  // Call it after adding all tokens.
  void finish();

  [[nodiscard]] std::uint64_t left() const { return total_ - written_; }
  [[nodiscard]] std::uint64_t shards() const { return shard_count_; }
  [[nodiscard]] std::uint64_t documents() const { return documents_; }
  [[nodiscard]] std::uint64_t counted() const { return counted_; }  // 0 without a loss mask

 private:
  void open_shard_writer();
  void close_shard_writer();
  void add_mask(std::span<const std::byte> counted);
  void write(std::span<const std::byte> tokens);
  void flush();

  std::string directory_;
  std::uint64_t total_;
  std::uint64_t shard_tokens_;
  DType dtype_;
  std::string tokenizer_;
  std::uint64_t vocabulary_;
  std::uint64_t shard_count_;
  std::uint64_t written_ = 0;
  std::uint64_t documents_ = 0;
  bool at_document_start_ = false;
  std::unique_ptr<ShardWriter> shard_;
  std::uint64_t in_shard_ = 0;          // tokens written to the open shard
  std::uint64_t shard_size_ = 0;        // tokens it will hold
  std::vector<std::uint64_t> offsets_;  // of the open shard
  std::vector<std::byte> mask_;         // of the open shard, a bit per token
  std::uint64_t counted_ = 0;
  std::vector<std::byte> buffer_;  // documents may be short; the file gets large blocks
  std::size_t buffered_ = 0;       // tokens in buffer_
};

}  // namespace trireme
