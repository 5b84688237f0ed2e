// SPDX-License-Identifier: Apache-2.0
#include "models/unet/unet.h"

#include <bit>

#include "models/images/image_config.h"
#include "models/unet/layers.h"
#include "runtime/config/rules/rules.h"

namespace trireme {
Shape UNetOptions::input(std::int64_t samples) const {
  if (depth == 0) return {samples, image_size, width(), channels};
  return {samples, depth, image_size, width(), channels};
}

Chain unet_chain(const UNetOptions& options) {
  Chain chain;
  const auto add = [&](ChainLayer layer) {
    layer.block = true;
    chain.push_back(std::move(layer));
  };
  for (std::int64_t i = 0; i <= options.levels; ++i) {
    const std::string name = i < options.levels ? fmt::format("encoder.{}", i) : "bottom";
    add(in_scope<UNetEncoder>(name, name, options, i));
  }
  for (std::int64_t i = options.levels; i-- > 0;) {
    const std::string name = fmt::format("decoder.{}", i);
    add(in_scope<UNetDecoder>(name, name, i));
  }
  chain.push_back(in_scope<UNetHead>("", options));
  return chain;
}

namespace {

using config::IntegerRange;
using config::NumberRange;

constexpr std::int64_t max_filters = 1 << 16;

#define UNET_FIELD(name, ...) TRIREME_MODEL_FIELD(UNetOptions, name, __VA_ARGS__)

std::vector<config::Field> unet_fields() {
  return image_fields<UNetOptions>({
      UNET_FIELD(depth, (IntegerRange{0, 16384}), "depth of volumes; 0: the samples are images"),
      UNET_FIELD(filters, IntegerRange{1, 4096},
                 "channels of the first level; doubles with each level"),
      UNET_FIELD(levels, IntegerRange{1, 12}, "halvings of the extents, and doublings after them"),
      UNET_FIELD(class_weights, (NumberRange{.low = 0, .high = 1e6, .items = {0, 4096}}),
                 "per class: multiplies the loss of its pixels; empty: 1"),
  });
}

void check_unet(const config::Subject& subject) {
  const auto& model = subject.config.model.as<UNetOptions>();
  if (!subject.config.data.path.empty())
    refuse(subject, "data.path",
           "packed shards hold no classes of pixels; name HDF5 files by data.files");
  std::int64_t shortest = std::min(model.image_size, model.width());
  if (model.depth > 0) shortest = std::min(shortest, model.depth);
  const std::int64_t fits = std::bit_width(static_cast<std::uint64_t>(shortest)) - 1;
  if (model.levels > fits) {
    refuse(subject, "model.levels", "{} halvings of {} leave less than one; use {} or fewer",
           model.levels, shortest, fits);
  }
  if (model.filters << model.levels > max_filters) {
    refuse(subject, "model.filters", "{} grow to {} at the bottom, more than {}; use {} or less",
           model.filters, model.filters << model.levels, max_filters, max_filters >> model.levels);
  }
  const auto weights = static_cast<std::int64_t>(model.class_weights.size());
  if (weights > 0 && weights != model.classes) {
    refuse(subject, "model.class_weights", "{} weights for model.classes = {}; give {} or none",
           weights, model.classes, model.classes);
  }
}

TargetSpec targets_of(const ModelConfig& model) {
  const auto& options = model.as<UNetOptions>();
  const Shape input = options.input(1);
  return {TargetKind::pixels, Shape(input.extents().subspan(1, input.rank() - 2)), options.classes};
}

}  // namespace

config::ModelFamily unet_family() {
  return {.name = unet_name,
          .input = config::Input::fields,
          .volumes = [](const ModelConfig& model) { return model.as<UNetOptions>().depth > 0; },
          .fields = unet_fields,
          .check = check_unet,
          .limits = [](const Config& config) { return limits_of(unet_chain(config)); },
          .targets = targets_of};
}

Chain unet_chain(const Config& config) {
  return unet_chain(config.model.as<UNetOptions>());
}

}  // namespace trireme
