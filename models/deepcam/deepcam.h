// SPDX-License-Identifier: Apache-2.0
// DeepCAM (Kurth et al., 2018): DeepLabv3+ (Chen et al., 2018) with an Xception encoder, layer by
// layer as the reference of MLPerf HPC. 32 filters and 16 middle blocks are the benchmark's 56.5 M
// parameters for 16 channels and 3 classes. Extents are halved four times, rounded up, and
// restored.
#pragma once

#include "runtime/config/key_table.h"
#include "runtime/nn/model.h"

namespace trireme {

inline constexpr std::string_view deepcam_name = "deepcam";

// The keys of the model section for family deepcam; deepcam.cpp documents them. Those that other
// families have too have their defaults.
struct DeepCamOptions {
  std::int64_t image_size = 224;
  std::int64_t image_width = 0;  // 0 = auto: image_size, which is otherwise the height
  std::int64_t channels = 3;
  std::int64_t classes = 1000;
  std::int64_t filters = 32;        // of the first convolution; all others have multiples
  std::int64_t middle_blocks = 16;  // of equal width, between entry and exit
  std::vector<double> class_weights{};
  friend bool operator==(const DeepCamOptions&, const DeepCamOptions&) = default;

  [[nodiscard]] std::int64_t width() const { return image_width > 0 ? image_width : image_size; }
  // (samples, height, width, channels).
  [[nodiscard]] Shape input(std::int64_t samples) const {
    return {samples, image_size, width(), channels};
  }
  // The channels that are `of_32` in the reference.
  [[nodiscard]] std::int64_t scaled(std::int64_t of_32) const { return of_32 * filters / 32; }
};

// Inputs (micro_batch, height, width, channels) f32; targets (micro_batch, height, width) i32.
[[nodiscard]] Chain deepcam_chain(const DeepCamOptions& options, bool dice = false);

[[nodiscard]] config::ModelFamily deepcam_family();
[[nodiscard]] Chain deepcam_chain(const Config& config);

}  // namespace trireme
