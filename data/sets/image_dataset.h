// SPDX-License-Identifier: Apache-2.0
// Image shards: sample i is image i of all shards concatenated, with its label.
#pragma once

#include <vector>

#include "data/sets/dataset.h"
#include "data/shard/shard_set.h"

namespace trireme {

class ImageDataset final : public Dataset {
 public:
  // A label is read and checked with its image; for images under 128 kB a second read would be too
  // slow, so the constructor reads and checks all their labels and keeps them in memory.
  explicit ImageDataset(ShardSet shards);

  [[nodiscard]] DataKind kind() const override { return DataKind::images; }
  [[nodiscard]] std::int64_t size() const override {
    return static_cast<std::int64_t>(shards_.elements());
  }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  [[nodiscard]] std::uint64_t fingerprint() const override { return shards_.fingerprint(); }
  [[nodiscard]] const std::vector<Shard>& shards() const override { return shards_.shards(); }
  void read(std::int64_t index, std::span<std::byte> inputs,
            std::span<std::int32_t> targets) const override;

 private:
  ShardSet shards_;
  SampleLayout layout_;
  std::vector<std::int32_t> labels_;  // of small images; else empty
};

// Raises ExitCode::data naming the first label that is not a class of the shard; `first` is the
// position of labels[0] in the shard.
void check_labels(const Shard& shard, std::uint64_t first, std::span<const std::int32_t> labels);

}  // namespace trireme
