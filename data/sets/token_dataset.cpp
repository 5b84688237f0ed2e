// SPDX-License-Identifier: Apache-2.0
#include "data/sets/token_dataset.h"

#include <algorithm>
#include <array>

#include "runtime/base/error.h"

namespace trireme {

template <typename Token>
Token largest(std::span<const Token> ids) {
  Token top = 0;
  for (const Token id : ids)
    top = std::max(top, id);
  return top;
}
template std::uint16_t largest(std::span<const std::uint16_t>);
template std::uint32_t largest(std::span<const std::uint32_t>);

template <typename Token>
void refuse_ids(const Shard& shard, std::uint64_t first, std::span<const Token> ids) {
  const auto bad =
      std::find_if(ids.begin(), ids.end(), [&](Token id) { return id >= shard.header.vocabulary; });
  TRIREME_EXPECTS(bad != ids.end(), "every id is inside the vocabulary");
  fail(ExitCode::data,
       "{}: token {} has id {}, outside the vocabulary of {} (ids 0..{}): the shard is damaged or "
       "was packed with the "
       "wrong vocabulary; check it with `trireme data inspect --verify` and re-pack",
       shard.path, first + static_cast<std::uint64_t>(bad - ids.begin()), *bad,
       shard.header.vocabulary, shard.header.vocabulary - 1);
}
template void refuse_ids(const Shard&, std::uint64_t, std::span<const std::uint16_t>);
template void refuse_ids(const Shard&, std::uint64_t, std::span<const std::uint32_t>);

TokenDataset::TokenDataset(ShardSet shards, std::int64_t context, bool documents)
    : shards_(std::move(shards)), vocabulary_(shards_.shards().front().header.vocabulary) {
  TRIREME_EXPECTS(context > 0, "token shards are read as windows of model.context tokens, got {}",
                  context);
  const std::string& path = shards_.shards().front().path;
  size_ = static_cast<std::int64_t>((shards_.elements() - 1) / static_cast<std::uint64_t>(context));
  if (size_ == 0) {
    fail(ExitCode::data,
         "{}: the data set has {} tokens, but one sample of context {} needs {}; pack more text or "
         "lower model.context",
         path, shards_.elements(), context, context + 1);
  }
  layout_ = token_samples(context, documents);
  if (!documents) return;
  borders_ = DocumentBorders(shards_);
  layout_.mean_documents = borders_.mean_in(context, shards_.elements());
}

template <typename Token>
void TokenDataset::load(std::int64_t sample, std::uint64_t first, std::span<Token> to) const {
  std::size_t which = shards_.shard_of(first);
  while (!to.empty()) {
    const Shard& shard = shards_.shards()[which];
    const std::uint64_t at = first - shards_.start_of(which);
    const auto part = to.first(std::min<std::uint64_t>(to.size(), shard.header.count - at));
    shards_.read(which, at * sizeof(Token), std::as_writable_bytes(part), sample);
    if (largest<Token>(part) >= vocabulary_) refuse_ids<Token>(shard, at, part);
    to = to.subspan(part.size());
    first += part.size();
    ++which;
  }
}

template <typename Token>
void TokenDataset::read_as(std::int64_t sample, std::uint64_t first, std::span<std::int32_t> inputs,
                           std::span<std::int32_t> targets) const {
  // Stays in the first-level cache between the read and the two conversions.
  constexpr std::size_t block = 16384 / sizeof(Token);
  std::array<Token, block> ids;  // NOLINT: filled by load
  const std::size_t context = inputs.size();
  for (std::size_t done = 0; done < context; done += block - 1) {
    const std::size_t count = std::min(block - 1, context - done);
    load(sample, first + done, std::span(ids).first(count + 1));
    for (std::size_t i = 0; i < count; ++i)
      inputs[done + i] = static_cast<std::int32_t>(ids[i]);
    for (std::size_t i = 0; i < count; ++i)
      targets[done + i] = static_cast<std::int32_t>(ids[i + 1]);
  }
}

void TokenDataset::read(std::int64_t index, std::span<std::byte> inputs,
                        std::span<std::int32_t> targets) const {
  check_request(index, inputs, targets);
  const std::size_t context = targets.size();
  const std::span tokens(reinterpret_cast<std::int32_t*>(inputs.data()), context);
  const std::uint64_t first = static_cast<std::uint64_t>(index) * context;
  if (shards_.shards().front().header.dtype == DType::u16) {
    read_as<std::uint16_t>(index, first, tokens, targets);
  } else {
    read_as<std::uint32_t>(index, first, tokens, targets);
  }
  if (shards_.shards().front().header.counted) leave_out_masked(index, first + 1, targets);
}

void TokenDataset::leave_out_masked(std::int64_t sample, std::uint64_t first,
                                    std::span<std::int32_t> targets) const {
  static thread_local std::vector<std::byte> mask;
  for (std::size_t which = shards_.shard_of(first); !targets.empty(); ++which) {
    const std::uint64_t at = first - shards_.start_of(which);
    const std::uint64_t count =
        std::min<std::uint64_t>(targets.size(), shards_.shards()[which].header.count - at);
    const std::uint64_t begin = at / 8;
    mask.resize(loss_mask_bytes(at + count) - begin);
    shards_.read_mask(which, begin, mask, sample);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t bit = at + i;
      const auto byte = std::to_integer<unsigned>(mask[bit / 8 - begin]);
      if (((byte >> (bit % 8)) & 1U) == 0) targets[i] = masked_target;
    }
    targets = targets.subspan(count);
    first += count;
  }
}

void TokenDataset::document_starts(std::int64_t index, std::span<std::int32_t> starts) const {
  borders_.fill(static_cast<std::uint64_t>(index * layout_.inputs.count()), starts);
}

void TokenDataset::read_stored(std::int64_t index, std::span<std::byte> window) const {
  const auto context = static_cast<std::size_t>(layout_.inputs.count());
  const DType dtype = shards_.shards().front().header.dtype;
  TRIREME_EXPECTS(index >= 0 && index < size_ && window.size() == (context + 1) * size_of(dtype),
                  "window {} of {} into {} bytes", index, size_, window.size());
  const std::uint64_t first = static_cast<std::uint64_t>(index) * context;
  if (dtype == DType::u16) {
    load(index, first, std::span(reinterpret_cast<std::uint16_t*>(window.data()), context + 1));
  } else {
    load(index, first, std::span(reinterpret_cast<std::uint32_t*>(window.data()), context + 1));
  }
}

}  // namespace trireme
