// SPDX-License-Identifier: Apache-2.0
// U-Net (Ronneberger et al., 2015) for classes or values of pixels or voxels, with norms and "same"
// padding: each level of the encoder halves the extents, and each level of the decoder doubles them
// and sees what the encoder had there. Max pooling rounds odd extents down, and they are restored.
#pragma once

#include <algorithm>

#include "runtime/config/config.h"
#include "runtime/config/key_table.h"
#include "runtime/nn/model.h"

namespace trireme {

inline constexpr std::string_view unet_name = "unet";

enum class UNetNormKind : std::uint8_t { batch, instance, group };
[[nodiscard]] constexpr auto names_of(UNetNormKind /*key*/) {
  return std::to_array<Named<UNetNormKind>>({{UNetNormKind::batch, "batch"},
                                             {UNetNormKind::instance, "instance"},
                                             {UNetNormKind::group, "group"}});
}

// Behind each norm. leaky_relu: with a slope of 0.01, as in nnU-Net.
enum class UNetActivation : std::uint8_t { relu, leaky_relu, tanh };
[[nodiscard]] constexpr auto names_of(UNetActivation /*key*/) {
  return std::to_array<Named<UNetActivation>>({{UNetActivation::relu, "relu"},
                                               {UNetActivation::leaky_relu, "leaky_relu"},
                                               {UNetActivation::tanh, "tanh"}});
}

// How a level halves the extents: max pooling behind its two convolutions, or stride 2 of the next
// level's first one.
enum class UNetDown : std::uint8_t { pool, stride };
[[nodiscard]] constexpr auto names_of(UNetDown /*key*/) {
  return std::to_array<Named<UNetDown>>({{UNetDown::pool, "pool"}, {UNetDown::stride, "stride"}});
}

// The keys of the model section for family unet; unet.cpp documents them.
struct UNetOptions {
  std::int64_t image_size = 224;
  std::int64_t image_width = 0;  // 0 = auto: image_size, which is otherwise the height
  std::int64_t depth = 0;        // of volumes; 0: images
  std::int64_t channels = 3;
  std::int64_t classes = 1000;
  std::int64_t values = 0;    // values of each pixel, which has no class; 0: classes
  std::int64_t filters = 32;  // of the first level; doubles with each level
  std::int64_t widest = 0;    // filters stop growing there; 0: they do not
  std::int64_t levels = 4;    // halvings
  UNetDown down = UNetDown::pool;
  UNetNormKind norm = UNetNormKind::batch;
  std::int64_t norm_groups = 8;  // of UNetNormKind::group
  UNetActivation nonlinearity = UNetActivation::relu;
  std::vector<double> class_weights{};
  friend bool operator==(const UNetOptions&, const UNetOptions&) = default;

  [[nodiscard]] std::int64_t width() const { return image_width > 0 ? image_width : image_size; }
  [[nodiscard]] std::int64_t filters_of(std::int64_t level) const {
    const std::int64_t doubled = filters << level;
    return widest > 0 ? std::min(doubled, widest) : doubled;
  }
  // (samples, [depth,] height, width, channels).
  [[nodiscard]] Shape input(std::int64_t samples) const;
};

// Inputs (micro_batch, [depth,] height, width, channels) f32; targets (micro_batch, [depth,]
// height, width) i32, or of values (micro_batch, [depth,] height, width, options.values) f32.
[[nodiscard]] Chain unet_chain(const UNetOptions& options, const TrainConfig& train = {});

[[nodiscard]] config::ModelFamily unet_family();
[[nodiscard]] Chain unet_chain(const Config& config);

}  // namespace trireme
