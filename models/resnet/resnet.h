// SPDX-License-Identifier: Apache-2.0
// ResNet (He et al., 2016) in NHWC, with basic or bottleneck blocks (stride in the 3x3 convolution,
// "v1.5"), and of volumes in NDHWC, with cubes for squares (Hara et al., 2018). Stems: `imagenet`
// is 7x7/2 and a 3x3/2 max-pool, `small` is one 3x3 for images around 32x32. The last batch norm of
// each branch starts at zero, so that a block starts as the identity (Goyal et al., 2017).
#pragma once

#include <vector>

#include "models/heads/head_options.h"
#include "runtime/config/key_table.h"
#include "runtime/nn/model.h"
#include "runtime/ops/random/augment.h"

namespace trireme {

namespace hugging_face {
struct Exchange;
[[nodiscard]] const Exchange& resnet_exchange();
}  // namespace hugging_face

inline constexpr std::string_view resnet_name = "resnet";

enum class ResNetBlockKind : std::uint8_t { basic, bottleneck };
[[nodiscard]] constexpr auto names_of(ResNetBlockKind /*key*/) {
  return std::to_array<Named<ResNetBlockKind>>(
      {{ResNetBlockKind::basic, "basic"}, {ResNetBlockKind::bottleneck, "bottleneck"}});
}
enum class ResNetStemKind : std::uint8_t { imagenet, small };
[[nodiscard]] constexpr auto names_of(ResNetStemKind /*key*/) {
  return std::to_array<Named<ResNetStemKind>>(
      {{ResNetStemKind::imagenet, "imagenet"}, {ResNetStemKind::small, "small"}});
}

// The keys of the model section for family resnet; resnet.cpp documents them.
struct ResNetOptions {
  ResNetBlockKind block = ResNetBlockKind::basic;
  std::vector<std::int64_t> stages = {2, 2, 2, 2};  // blocks; width doubles from stage to stage
  std::int64_t width = 64;  // channels of the first stage (before bottleneck expansion)
  ResNetStemKind stem = ResNetStemKind::imagenet;
  std::int64_t image_size = 224;
  std::int64_t image_width = 0;  // 0 = auto: image_size, which is otherwise the height
  std::int64_t depth = 0;        // of volumes; 0: images
  std::int64_t channels = 3;
  HeadKind head = HeadKind::automatic;
  std::int64_t classes = 1000;
  std::int64_t targets = 4;
  friend bool operator==(const ResNetOptions&, const ResNetOptions&) = default;
};

[[nodiscard]] inline std::int64_t width_of_images(const ResNetOptions& options) {
  return options.image_width > 0 ? options.image_width : options.image_size;
}

// Inputs (micro_batch, height, width, channels) u8 or f32, or (micro_batch, depth, height, width,
// channels) f32; targets (micro_batch) i32, or (micro_batch, K) f32 of values and labels. `augment`
// is applied to the inputs; random only in training, and to volumes without crops. `head` follows
// from the options.
[[nodiscard]] Chain resnet_chain(const ResNetOptions& options, const ops::AugmentOptions& augment,
                                 const HeadChoice& head);
[[nodiscard]] inline Chain resnet_chain(const ResNetOptions& options,
                                        const ops::AugmentOptions& augment = {}) {
  return resnet_chain(options, augment, head_choice(options));
}

[[nodiscard]] config::ModelFamily resnet_family();
[[nodiscard]] Chain resnet_chain(const Config& config);

}  // namespace trireme
