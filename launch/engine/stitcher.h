// SPDX-License-Identifier: Apache-2.0
// Evaluation of whole samples from overlapping windows: the mean of the windows' logits, weighted
// by a Gaussian around the centre of each (std 1/8 of its extents), as in nnU-Net and MLPerf's
// U-Net 3D. A data rank holds one sample at a time in the memory of its host, so the bits of the
// result do not depend on the layout.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "data/fields/sliding_windows.h"
#include "runtime/config/config.h"
#include "runtime/train/evaluation.h"

namespace trireme {

class Stitcher final : public LogitsSink {
 public:
  // `windows` and `device` must outlive this. `rank`: of the data group. Only on a rank with the
  // head.
  Stitcher(const SlidingWindows& windows, Device& device, const HeadInfo& head, int rank,
           const Config& config);

  void take(Stream& stream, const Tensor& logits) override;

  // Of one sample.
  struct Row {
    std::int64_t sample = 0;
    std::array<float, ops::LossSums::count> sums{};
  };
  // Of this rank's samples; begins anew.
  [[nodiscard]] std::vector<Row> finish();

 private:
  void begin(std::int64_t sample);
  void add(const SampleWindow& window, const float* logits, std::int64_t stride);
  void end();

  const SlidingWindows& windows_;
  Device& device_;
  HeadInfo head_;
  int rank_;
  bool dice_, absent_counts_;
  std::array<std::vector<float>, 3> gauss_;  // along each axis of a window
  Buffer copy_;                              // logits of a micro-batch, on the host
  std::unique_ptr<Device> host_;
  std::unique_ptr<Stream> stream_;
  std::size_t next_ = 0;  // window
  std::int64_t sample_ = -1;
  Voxel extents_{};
  std::vector<float> logits_;                             // the same in f32
  std::vector<float> sums_, weights_, losses_, correct_;  // (pixels, classes), (pixels)
  std::vector<std::int32_t> targets_;
  std::vector<Row> rows_;
};

// The means over all samples, in their order, on every rank. `rows`: of this rank; empty on ranks
// that stitch nothing. Collective.
[[nodiscard]] EvaluationResult mean_of_samples(Communicator& world,
                                               std::span<const Stitcher::Row> rows,
                                               std::int64_t samples);

}  // namespace trireme
