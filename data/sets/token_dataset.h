// SPDX-License-Identifier: Apache-2.0
// Token shards as windows of T + 1 tokens.
#pragma once

#include "data/sets/dataset.h"
#include "data/sets/document_borders.h"
#include "data/shard/shard_set.h"

namespace trireme {

// Sample i is the window [i * T, i * T + T + 1) of all shards concatenated; windows may cross shard
// borders. Inputs are its first T tokens, targets its last T; the loss mask replaces targets by
// masked_target. N = (tokens - 1) / T samples.
class TokenDataset final : public Dataset {
 public:
  // `documents`: stores their starts, 8 bytes each.
  TokenDataset(ShardSet shards, std::int64_t context, bool documents = false);

  [[nodiscard]] DataKind kind() const override { return DataKind::tokens; }
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  [[nodiscard]] std::uint64_t fingerprint() const override { return shards_.fingerprint(); }
  [[nodiscard]] const std::vector<Shard>& shards() const override { return shards_.shards(); }
  void read(std::int64_t index, std::span<std::byte> inputs,
            std::span<std::int32_t> targets) const override;

  void document_starts(std::int64_t index, std::span<std::int32_t> starts) const override;

  // Window `index` as stored (u16 or u32), (T + 1) * size_of(dtype) bytes, with checked ids.
  void read_stored(std::int64_t index, std::span<std::byte> window) const;

 private:
  template <typename Token>
  void read_as(std::int64_t sample, std::uint64_t first, std::span<std::int32_t> inputs,
               std::span<std::int32_t> targets) const;
  // targets[t] is token first + t.
  void leave_out_masked(std::int64_t sample, std::uint64_t first,
                        std::span<std::int32_t> targets) const;
  template <typename Token>
  void load(std::int64_t sample, std::uint64_t first, std::span<Token> to) const;

  ShardSet shards_;
  DocumentBorders borders_;
  SampleLayout layout_;
  std::int64_t size_;
  std::uint64_t vocabulary_;
};

// The largest of `ids`, at memory speed, to check many ids. Instantiated for u16 and u32.
template <typename Token>
[[nodiscard]] Token largest(std::span<const Token> ids);

// Raises ExitCode::data naming the first id that is not below `vocabulary`; `first` is the position
// of ids[0] in the shard.
template <typename Token>
[[noreturn]] void refuse_ids(const Shard& shard, std::uint64_t first, std::span<const Token> ids);

}  // namespace trireme
