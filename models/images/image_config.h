// SPDX-License-Identifier: Apache-2.0
// Config shared by image families: the rules between a model's image size and the data section, and
// the resulting augmentation.
#pragma once

#include <cstdint>
#include <string>

#include "models/heads/head_options.h"
#include "models/transformer/hf_keys.h"
#include "runtime/config/rules/rules.h"
#include "runtime/ops/random/augment.h"

namespace trireme {

// The image size of a model, from the keys model.image_size, model.image_width and model.channels.
struct ImageExtent {
  std::int64_t height = 0, width = 0, channels = 0;

  [[nodiscard]] std::int64_t short_side() const { return std::min(height, width); }
  // The key of the short side.
  [[nodiscard]] std::string_view short_key() const {
    return width < height ? "model.image_width" : "model.image_size";
  }
};

template <typename Options>
[[nodiscard]] ImageExtent image_extent(const Options& o) {
  return {o.image_size, o.image_width > 0 ? o.image_width : o.image_size, o.channels};
}

// A family's own keys, and after them those that all families of images have.
template <typename Options>
[[nodiscard]] std::vector<config::Field> image_fields(std::vector<config::Field> rows) {
  using config::IntegerRange;
  rows.push_back(TRIREME_MODEL_FIELD(Options, image_size, IntegerRange{1, 16384},
                                     "height and width of the images in pixels"));
  rows.push_back(TRIREME_MODEL_FIELD(Options, image_width, (IntegerRange{1, 16384, {}, "auto"}),
                                     "width of the images, if not square; auto = image_size"));
  rows.push_back(TRIREME_MODEL_FIELD(Options, channels, IntegerRange{1, 4096},
                                     "channels of the input; of a table: its columns"));
  if constexpr (requires(Options o) { o.head; }) return head_fields<Options>(std::move(rows));
  rows.push_back(TRIREME_MODEL_FIELD(Options, classes, classes_range, classes_text));
  return rows;
}

// ModelFamily::targets of a family with heads.
template <typename Options>
[[nodiscard]] TargetSpec targets_of(const ModelConfig& model) {
  return head_targets(head_choice(model.as<Options>()));
}

// Raises ExitCode::config through refuse().
void check_image_data(const config::Subject& subject, const ImageExtent& image);

[[nodiscard]] ops::AugmentOptions augment_options(const Config& config, const ImageExtent& image);

}  // namespace trireme

namespace trireme::hugging_face {

// config.json entries shared by all image families.

// "image_size": one number, or [height, width] where they differ.
[[nodiscard]] std::string image_size_text(std::int64_t height, std::int64_t width);
struct ImageSides {
  std::int64_t height, width;  // width 0: the same
};
[[nodiscard]] ImageSides image_sides_of(const HfKeys& keys);

}  // namespace trireme::hugging_face
