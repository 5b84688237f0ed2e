// SPDX-License-Identifier: Apache-2.0
// Occasional snapshots of a run besides its numbers: histograms of its tensors, and the model's
// output on some of its data.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct TensorHistogram {
  std::string name{};          // "weights/blocks.0.mlp.expand.weight"
  std::vector<double> rows{};  // (left edge, right edge, count) each, edges ascending
};

struct StepHistograms {
  std::int64_t step = 0;
  std::vector<TensorHistogram> tensors{};
  std::chrono::system_clock::time_point time{};
};

// Either texts or images.
struct ModelSamples {
  struct Text {
    std::string prompt{}, continuation{};
  };
  struct Picture {
    std::int64_t height = 0, width = 0, channels = 0;  // 1 or 3 channels
    std::vector<std::byte> pixels{};                   // (height, width, channels)
    std::string label{}, predicted{};
  };
  std::int64_t step = 0;
  std::vector<Text> texts{};
  std::vector<Picture> pictures{};
  std::chrono::system_clock::time_point time{};
};

}  // namespace trireme
