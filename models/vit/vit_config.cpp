// SPDX-License-Identifier: Apache-2.0
#include "models/vit/vit_config.h"

#include <numeric>

#include "models/images/image_config.h"
#include "models/transformer/head_rules.h"

namespace trireme {
namespace {

using config::IntegerRange;
using config::NumberRange;

#define VIT_FIELD(name, ...) TRIREME_MODEL_FIELD(VitOptions, name, __VA_ARGS__)

// Rows of keys that other families have too are one with theirs: description and limits are there.
std::vector<config::Field> vit_fields() {
  return {
      VIT_FIELD(layers, IntegerRange{1, 1024}, ""),
      VIT_FIELD(hidden, IntegerRange{1, 65536}, ""),
      VIT_FIELD(heads, IntegerRange{1, 1024}, ""),
      VIT_FIELD(intermediate, (IntegerRange{1, 1 << 20, {}, "auto"}), ""),
      VIT_FIELD(dropout, (NumberRange{.low = 0, .high = 1, .high_is_open = true}), ""),
      VIT_FIELD(init_std, (NumberRange{.low = 0, .high = 10, .low_is_open = true}), ""),
      VIT_FIELD(norm_epsilon, (NumberRange{.low = 0, .high = 1, .low_is_open = true}), ""),
      VIT_FIELD(gelu, config::one_of<GeluForm>(),
                "GELU by the normal distribution, or its approximation by a tanh, which "
                "device.fused_epilogues can compute beside matmuls"),
      VIT_FIELD(patch, IntegerRange{1, 1024},
                "side of a patch in pixels; divides model.image_size and model.image_width"),
      VIT_FIELD(pooling, config::one_of<Pooling>(),
                "what the classifier reads: the row of a learned class token, or the mean of all "
                "patches' rows"),
      VIT_FIELD(image_size, IntegerRange{1, 16384}, ""),
      VIT_FIELD(image_width, (IntegerRange{1, 16384, {}, "auto"}), ""),
      VIT_FIELD(channels, IntegerRange{1, 4096}, ""),
      VIT_FIELD(classes, IntegerRange{2, 10'000'000}, ""),
  };
}

ImageExtent image_extent(const VitOptions& model) {
  return {model.image_size, model.width_of_images(), model.channels};
}

void check_patches(const config::Subject& subject, const VitOptions& model,
                   const ImageExtent& image) {
  const std::int64_t both = std::gcd(image.height, image.width);
  if (both % model.patch != 0) {
    const bool rows = image.height % model.patch != 0;
    refuse(subject, "model.patch", "{} does not divide {} = {}; use {}", model.patch,
           rows ? "model.image_size" : "model.image_width", rows ? image.height : image.width,
           config::any_of(config::near_divisors(both, model.patch)));
  }
  constexpr std::int64_t most_rows = 1 << 20;
  const std::int64_t rows = (image.height / model.patch) * (image.width / model.patch);
  if (rows >= most_rows) {
    refuse(subject, "model.patch", "{} cuts an image of {} x {} into {} patches, not below {}",
           model.patch, image.height, image.width, rows, most_rows);
  }
}

void check_vit(const config::Subject& subject) {
  const auto& model = subject.config.model.as<VitOptions>();
  const ImageExtent image = image_extent(model);
  check_heads_of_hidden(subject, model.hidden, model.heads);
  check_patches(subject, model, image);
  check_image_data(subject, image);
}

}  // namespace

config::ModelFamily vit_family() {
  return {.name = vit_name,
          .input = config::Input::images,
          .splits_tensor = true,
          .fields = vit_fields,
          .check = check_vit,
          .limits = [](const Config& config) { return limits_of(vit_chain(config)); },
          .targets_per_sample = [](const ModelConfig&) { return std::int64_t{1}; }};
}

Chain vit_chain(const Config& config) {
  const auto& model = config.model.as<VitOptions>();
  return vit_chain(model, augment_options(config, image_extent(model)));
}

}  // namespace trireme
