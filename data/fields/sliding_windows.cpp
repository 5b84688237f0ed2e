// SPDX-License-Identifier: Apache-2.0
#include "data/fields/sliding_windows.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/error.h"
#include "runtime/nn/batch.h"

namespace trireme {

std::vector<std::int64_t> window_starts(std::int64_t extent, std::int64_t window, double overlap) {
  TRIREME_EXPECTS(window >= 1 && extent >= window && overlap >= 0 && overlap < 1,
                  "windows of {} in {} with an overlap of {}", window, extent, overlap);
  const std::int64_t room = extent - window;
  const auto step =
      std::max<std::int64_t>(1, std::llround(static_cast<double>(window) * (1 - overlap)));
  const std::int64_t steps = (room + step - 1) / step;
  std::vector<std::int64_t> starts{0};
  for (std::int64_t i = 1; i <= steps; ++i)
    starts.push_back((2 * i * room + steps) / (2 * steps));  // i * module / steps, rounded
  return starts;
}

SlidingWindows::SlidingWindows(const FieldDataset& whole, std::int64_t samples, double overlap,
                               std::int64_t micro_batch, int ranks)
    : whole_(whole), windows_(static_cast<std::size_t>(ranks)), micro_batch_(micro_batch) {
  const Voxel extent = window();
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    const Voxel extents = whole_.extents_of(sample);
    auto& own = windows_[static_cast<std::size_t>(sample % ranks)];
    for (const auto depth : window_starts(extents[0], extent[0], overlap)) {
      for (const auto row : window_starts(extents[1], extent[1], overlap)) {
        for (const auto column : window_starts(extents[2], extent[2], overlap))
          own.push_back({sample, {depth, row, column}});
      }
    }
  }
  std::size_t most = 0;
  for (const auto& own : windows_)
    most = std::max(most, own.size());
  const std::int64_t rounds = (static_cast<std::int64_t>(most) + micro_batch - 1) / micro_batch;
  size_ = rounds * ranks * micro_batch;
}

void SlidingWindows::read(std::int64_t index, std::span<std::byte> inputs,
                          std::span<std::int32_t> targets) const {
  check_request(index, inputs, targets);
  const auto ranks = static_cast<std::int64_t>(windows_.size());
  const std::int64_t micro = index / micro_batch_, row = index % micro_batch_;
  const auto& own = windows_[static_cast<std::size_t>(micro % ranks)];
  const auto at = static_cast<std::size_t>(micro / ranks * micro_batch_ + row);
  if (at < own.size()) {
    whole_.read_patch(own[at].sample, own[at].origin, inputs, {});
  } else {
    std::ranges::fill(inputs, std::byte{});
  }
  std::ranges::fill(targets, ignored_target);
}

}  // namespace trireme
