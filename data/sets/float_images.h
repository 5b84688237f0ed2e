// SPDX-License-Identifier: Apache-2.0
// Images of bytes as float32 samples, for mixtures with files of numbers.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "data/sets/dataset.h"

namespace trireme {

// Of a pixel's byte: (byte / 255 - mean) / std of its channel, as a model's first layer has it.
class FloatImages final : public Dataset {
 public:
  // `mean` and `std` have a value per channel, or none: 0 and 1. Raises ExitCode::data for another
  // number of values, or if `images` has no images.
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
