// SPDX-License-Identifier: Apache-2.0
#include "data/pack/text/token_stream.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::size_t block_tokens = std::size_t{1} << 20;

}  // namespace

TokenStream::TokenStream(std::string directory, std::uint64_t total, std::uint64_t shard_tokens,
                         DType dtype, std::string tokenizer, std::uint64_t vocabulary)
    : directory_(std::move(directory)),
      total_(total),
      shard_tokens_(shard_tokens),
      dtype_(dtype),
      tokenizer_(std::move(tokenizer)),
      vocabulary_(vocabulary),
      shard_count_((total - 1) / shard_tokens + 1),
      buffer_(block_tokens * size_of(dtype)) {
  TRIREME_EXPECTS(total > 0 && shard_tokens > 0, "{} tokens in shards of {}", total, shard_tokens);
}

void TokenStream::open_shard_writer() {
  const std::uint64_t index = written_ / shard_tokens_;
  shard_size_ = std::min(shard_tokens_, total_ - written_);
  ShardHeader header;
  header.kind = DataKind::tokens;
  header.dtype = dtype_;
  header.shard_index = index;
  header.shard_count = shard_count_;
  header.count = shard_size_;
  header.continues = !at_document_start_;
  header.tokenizer = tokenizer_;
  header.vocabulary = vocabulary_;
  shard_ =
      std::make_unique<ShardWriter>(directory_ + "/" + shard_file_name(index), std::move(header));
  in_shard_ = 0;
  offsets_ = {0};
  mask_.clear();
}

void TokenStream::close_shard_writer() {
  flush();
  offsets_.push_back(shard_size_);
  shard_->finish(offsets_, mask_);
  shard_.reset();
}

void TokenStream::flush() {
  if (buffered_ > 0) shard_->write(buffer_.data(), buffered_);
  buffered_ = 0;
}

void TokenStream::write(std::span<const std::byte> tokens) {
  const std::size_t size = size_of(dtype_);
  while (!tokens.empty()) {
    const std::size_t count = std::min(block_tokens - buffered_, tokens.size() / size);
    const auto block = tokens.first(count * size);
    std::ranges::copy(block, buffer_.data() + buffered_ * size);
    buffered_ += count;
    if (buffered_ == block_tokens) flush();
    tokens = tokens.subspan(block.size());
  }
}

void TokenStream::add_mask(std::span<const std::byte> counted) {
  mask_.resize(loss_mask_bytes(shard_size_));
  for (std::size_t i = 0; i < counted.size(); ++i) {
    if (counted[i] == std::byte{0}) continue;
    const std::uint64_t token = in_shard_ + i;
    mask_[token / 8] |= std::byte{1} << (token % 8);
    ++counted_;
  }
}

void TokenStream::add(std::span<const std::byte> tokens, std::span<const std::byte> counted) {
  const std::size_t size = size_of(dtype_);
  TRIREME_EXPECTS(tokens.size() / size <= left(), "{} tokens, {} missing", tokens.size() / size,
                  left());
  while (!tokens.empty()) {
    if (!shard_) open_shard_writer();
    if (at_document_start_ && in_shard_ > 0) offsets_.push_back(in_shard_);
    if (at_document_start_ || written_ == 0) ++documents_;
    at_document_start_ = false;
    const std::uint64_t count =
        std::min<std::uint64_t>(tokens.size() / size, shard_size_ - in_shard_);
    write(tokens.first(count * size));
    if (!counted.empty()) {
      add_mask(counted.first(count));
      counted = counted.subspan(count);
    }
    in_shard_ += count;
    written_ += count;
    tokens = tokens.subspan(count * size);
    if (in_shard_ == shard_size_) close_shard_writer();
  }
}

void TokenStream::finish() {
  TRIREME_EXPECTS(left() == 0, "{} tokens are missing", left());
}

}  // namespace trireme
