// SPDX-License-Identifier: Apache-2.0
// What families of images share in the config: the rules between a model's image and the data
// section, and the augmentation that this asks for.
#pragma once

#include "runtime/config/rules/rules.h"
#include "runtime/ops/random/augment.h"

namespace trireme {

// Of the images that a model reads, under the keys model.image_size, model.image_width and
// model.channels.
struct ImageExtent {
  std::int64_t height = 0, width = 0, channels = 0;

  [[nodiscard]] std::int64_t short_side() const { return std::min(height, width); }
  // The key that the short side has.
  [[nodiscard]] std::string_view short_key() const {
    return width < height ? "model.image_width" : "model.image_size";
  }
};

// Raises ExitCode::config through refuse().
void check_image_data(const config::Subject& subject, const ImageExtent& image);

[[nodiscard]] ops::AugmentOptions augment_options(const Config& config, const ImageExtent& image);

}  // namespace trireme
