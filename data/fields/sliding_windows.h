// SPDX-License-Identifier: Apache-2.0
// Whole samples of a data set as windows of a model's size that overlap, for evaluations of a model
// that trains on patches (Isensee et al., nnU-Net, 2021): along each axis the fewest windows that
// overlap by at least the given share, evenly spread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/fields/field_dataset.h"

namespace trireme {

// Where windows of `window` positions begin in `extent`, which is at least as large; overlap: of
// [0, 1).
[[nodiscard]] std::vector<std::int64_t> window_starts(std::int64_t extent, std::int64_t window,
                                                      double overlap);

struct SampleWindow {
  std::int64_t sample = 0;
  Voxel origin{};  // its first slice (0 of images), row and column
};

// Its samples are windows without targets. Micro-batch k * ranks + r has windows of the whole
// samples of data rank r: r, r + ranks, ... So a rank sees all windows of a sample, in order. Ranks
// with fewer of them end with micro-batches of zeros.
class SlidingWindows final : public Dataset {
 public:
  // Of the first `samples` of `whole`, which gives patches of the model's extents.
  // It must outlive this.
  SlidingWindows(const FieldDataset& whole, std::int64_t samples, double overlap,
                 std::int64_t micro_batch, int ranks);

  [[nodiscard]] DataKind kind() const override { return whole_.kind(); }
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const SampleLayout& layout() const override { return whole_.layout(); }
  [[nodiscard]] std::uint64_t fingerprint() const override { return whole_.fingerprint(); }
  void read(std::int64_t index, std::span<std::byte> inputs,
            std::span<std::int32_t> targets) const override;

  [[nodiscard]] const FieldDataset& whole() const { return whole_; }
  [[nodiscard]] Voxel window() const { return whole_.shape().extents(); }
  // In the order of a rank's micro-batches and rows.
  [[nodiscard]] std::span<const SampleWindow> of_rank(int rank) const {
    return windows_[static_cast<std::size_t>(rank)];
  }

 private:
  const FieldDataset& whole_;
  std::vector<std::vector<SampleWindow>> windows_;  // by rank
  std::int64_t micro_batch_, size_ = 0;
};

}  // namespace trireme
