// SPDX-License-Identifier: Apache-2.0
// U-Net (Ronneberger et al., 2015) for the classes of pixels or voxels, with batch norm and "same"
// padding: each level of the encoder halves the extents, and each level of the decoder doubles them
// and sees what the encoder had there. Odd extents are rounded down on the way in and restored.
#pragma once

#include "runtime/config/key_table.h"
#include "runtime/nn/model.h"

namespace trireme {

inline constexpr std::string_view unet_name = "unet";

// The keys of the model section for family unet; unet.cpp documents them.
struct UNetOptions {
  std::int64_t image_size = 224;
  std::int64_t image_width = 0;  // 0 = auto: image_size, which is otherwise the height
  std::int64_t depth = 0;        // of volumes; 0: images
  std::int64_t channels = 3;
  std::int64_t classes = 1000;
  std::int64_t filters = 32;  // of the first level; doubles with each level
  std::int64_t levels = 4;    // halvings
  std::vector<double> class_weights{};
  friend bool operator==(const UNetOptions&, const UNetOptions&) = default;

  [[nodiscard]] std::int64_t width() const { return image_width > 0 ? image_width : image_size; }
  // (samples, [depth,] height, width, channels).
  [[nodiscard]] Shape input(std::int64_t samples) const;
};

// Inputs (micro_batch, [depth,] height, width, channels) f32; targets (micro_batch, [depth,]
// height, width) i32.
[[nodiscard]] Chain unet_chain(const UNetOptions& options);

[[nodiscard]] config::ModelFamily unet_family();
[[nodiscard]] Chain unet_chain(const Config& config);

}  // namespace trireme
