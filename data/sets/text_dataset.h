// SPDX-License-Identifier: Apache-2.0
// Token shards of texts with targets: a sample is a whole text.
#pragma once

#include "data/sets/dataset.h"
#include "data/shard/shard_set.h"

namespace trireme {

// Sample i is text i of all shards: its tokens, then padding up to T, which is a document of its
// own. Targets: those of the text; of its padding none. With pools_last the document of the text
// ends at its last token that is not padding, as transformers pools: under causal attention nothing
// else changes.
class TextDataset final : public Dataset {
 public:
  // Holds 8 bytes a text. Raises ExitCode::data for texts longer than options.context, and with
  // skips_padding for those with padding.
  TextDataset(ShardSet shards, const DatasetOptions& options);

  [[nodiscard]] DataKind kind() const override { return DataKind::tokens; }
  [[nodiscard]] std::int64_t size() const override { return std::ssize(starts_) - 1; }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  [[nodiscard]] std::uint64_t fingerprint() const override { return shards_.fingerprint(); }
  [[nodiscard]] const std::vector<Shard>& shards() const override { return shards_.shards(); }
  void read(std::int64_t index, std::span<std::byte> inputs,
            std::span<std::int32_t> targets) const override;
  void document_starts(std::int64_t index, std::span<std::int32_t> starts) const override;

 private:
  [[nodiscard]] std::uint64_t tokens_of(std::int64_t index) const {
    const auto at = static_cast<std::size_t>(index);
    return starts_[at + 1] - starts_[at];
  }
  // The first tokens of a text.
  void read_text(std::int64_t index, std::span<std::int32_t> to) const;
  template <typename Token>
  void read_tokens(std::size_t which, std::int64_t index, std::span<std::int32_t> to) const;
  void refuse_padding() const;
  void check_classes(const Shard& shard, std::int64_t index,
                     std::span<const std::int32_t> targets) const;

  ShardSet shards_;
  std::int32_t pad_token_;
  bool pools_last_;
  SampleLayout layout_;
  std::vector<std::uint64_t> starts_;  // of the texts, over all shards, and the end
  std::vector<std::size_t> first_;     // text of each shard
};

// For texts of at most `context` tokens.
[[nodiscard]] SampleLayout text_samples(std::int64_t context, TextTargets targets,
                                        std::int64_t width);

}  // namespace trireme
