// SPDX-License-Identifier: Apache-2.0
#include "data/pack/text/token_spool.h"

#include <algorithm>

#include "data/pack/progress.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::size_t spool_block_tokens = std::size_t{1} << 20;

template <typename Token>
void store(std::span<const std::uint32_t> ids, std::vector<std::byte>& to) {
  to.resize(ids.size() * sizeof(Token));
  auto* const tokens = reinterpret_cast<Token*>(to.data());
  for (std::size_t i = 0; i < ids.size(); ++i)
    tokens[i] = static_cast<Token>(ids[i]);
}

}  // namespace

TokenSpool::TokenSpool(const std::string& directory, DType dtype, bool masked)
    : dtype_(dtype), ids_(directory), starts_(directory) {
  if (masked) counted_.emplace(directory);
}

void TokenSpool::begin_document() {
  pending_starts_.push_back(tokens_);
  if (pending_starts_.size() == spool_block_tokens) flush_starts();
}

void TokenSpool::add(std::span<const std::uint32_t> ids, std::span<const std::uint8_t> counted) {
  TRIREME_EXPECTS(counted.size() == (counted_ ? ids.size() : 0), "{} tokens, {} marks", ids.size(),
                  counted.size());
  if (counted_) counted_->append(std::as_bytes(counted));
  dtype_ == DType::u16 ? store<std::uint16_t>(ids, stored_) : store<std::uint32_t>(ids, stored_);
  ids_.append(stored_);
  tokens_ += ids.size();
}

void TokenSpool::flush_starts() {
  starts_.append(std::as_bytes(std::span(pending_starts_)));
  pending_starts_.clear();
}

void TokenSpool::replay(const std::function<void()>& begin_document, const Take& take) {
  flush_starts();
  const std::size_t size = size_of(dtype_);
  std::vector<std::byte> block(spool_block_tokens * size);
  std::vector<std::byte> marks(counted_ ? spool_block_tokens : 0);
  std::vector<std::uint64_t> starts;
  std::uint64_t next_starts = 0;  // bytes read of them
  std::size_t next = 0;
  const auto next_start = [&] {
    if (next == starts.size()) {
      next = 0;
      starts.resize(
          std::min<std::uint64_t>(spool_block_tokens, (starts_.size() - next_starts) / 8));
      if (starts.empty()) return tokens_;
      starts_.read(next_starts, std::as_writable_bytes(std::span(starts)));
      next_starts += starts.size() * 8;
    }
    return starts[next];
  };
  for (std::uint64_t done = 0; done < tokens_;) {
    stop_if_asked();
    const std::uint64_t count = std::min<std::uint64_t>(spool_block_tokens, tokens_ - done);
    const auto read = std::span(block).first(count * size);
    ids_.read(done * size, read);
    if (counted_) counted_->read(done, std::span(marks).first(count));
    for (std::uint64_t at = done; at < done + count;) {
      if (next_start() == at) {
        begin_document();
        ++next;
      }
      const std::uint64_t end = std::min(next_start(), done + count);
      take(read.subspan((at - done) * size, (end - at) * size),
           counted_ ? std::span<const std::byte>(marks).subspan(at - done, end - at)
                    : std::span<const std::byte>());
      at = end;
    }
    done += count;
  }
}

}  // namespace trireme
