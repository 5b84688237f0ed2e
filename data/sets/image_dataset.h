// SPDX-License-Identifier: Apache-2.0
// Image shards: sample i is image i of all shards concatenated, with its label.
#pragma once

#include <memory>
#include <span>
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

// Images of bytes as float32 samples, to stand beside files of numbers in a mixture.
// Of a pixel's byte: (byte / 255 - mean) / std of its channel, as a model's first layer has it.
class FloatImages final : public Dataset {
 public:
  // `mean` and `std` have a value per channel, or none: 0 and 1. Raises ExitCode::data for another
  // number of values, or where `images` are none.
  FloatImages(std::unique_ptr<const Dataset> images, std::span<const double> mean,
              std::span<const double> std);

  [[nodiscard]] DataKind kind() const override { return DataKind::images; }
  [[nodiscard]] std::int64_t size() const override { return images_->size(); }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  [[nodiscard]] std::uint64_t fingerprint() const override { return images_->fingerprint(); }
  [[nodiscard]] const std::vector<Shard>& shards() const override { return images_->shards(); }
  [[nodiscard]] IdNames id_names() const override { return images_->id_names(); }
  [[nodiscard]] std::vector<std::string> files() const override { return images_->files(); }
  void read(std::int64_t index, std::span<std::byte> inputs,
            std::span<std::int32_t> targets) const override {
    read_in_epoch(0, index, inputs, targets);
  }
  void read_in_epoch(std::int64_t epoch, std::int64_t index, std::span<std::byte> inputs,
                     std::span<std::int32_t> targets) const override;
  [[nodiscard]] float weight(std::int64_t index) const override { return images_->weight(index); }
  [[nodiscard]] std::string shortcomings() const override { return images_->shortcomings(); }
  [[nodiscard]] std::string touched() const override { return images_->touched(); }
  void keep_index(const std::string& path) const override { images_->keep_index(path); }

 private:
  std::unique_ptr<const Dataset> images_;
  SampleLayout layout_;
  std::vector<float> values_;  // (channels, 256)
};

}  // namespace trireme
