// SPDX-License-Identifier: Apache-2.0
// Config shared by the families that classify pixels or voxels.
#pragma once

#include "models/images/image_config.h"

namespace trireme {

// A family's own keys, and after them those that all these families have.
template <typename Options>
[[nodiscard]] std::vector<config::Field> pixel_fields(std::vector<config::Field> rows) {
  using config::NumberRange;
  rows.push_back(TRIREME_MODEL_FIELD(Options, class_weights,
                                     (NumberRange{.low = 0, .high = 1e6, .items = {0, 4096}}),
                                     "per class: multiplies the loss of its pixels; empty: 1"));
  return image_fields<Options>(std::move(rows));
}

// ModelFamily::targets.
template <typename Options>
[[nodiscard]] TargetSpec pixels_of(const ModelConfig& model) {
  const auto& options = model.as<Options>();
  const Shape input = options.input(1);
  return {TargetKind::pixels, Shape(input.extents().subspan(1, input.rank() - 2)), options.classes};
}

// Raises ExitCode::config through refuse().
template <typename Options>
void check_pixels(const config::Subject& subject, const Options& model) {
  if (!subject.config.data.path.empty())
    refuse(subject, "data.path",
           "packed shards hold no classes of pixels; name HDF5 files by data.files");
  const auto weights = static_cast<std::int64_t>(model.class_weights.size());
  if (weights > 0 && weights != model.classes) {
    refuse(subject, "model.class_weights", "{} weights for model.classes = {}; give {} or none",
           weights, model.classes, model.classes);
  }
}

}  // namespace trireme
