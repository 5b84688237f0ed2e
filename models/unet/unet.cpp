// SPDX-License-Identifier: Apache-2.0
#include "models/unet/unet.h"

#include <bit>
#include <numeric>

#include "models/fields/pixel_config.h"
#include "models/unet/layers.h"
#include "runtime/config/rules/rules.h"

namespace trireme {
Shape UNetOptions::input(std::int64_t samples) const {
  if (depth == 0) return {samples, image_size, width(), channels};
  return {samples, depth, image_size, width(), channels};
}

Chain unet_chain(const UNetOptions& options, const TrainConfig& train) {
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
    add(in_scope<UNetDecoder>(name, name, options, i));
  }
  chain.push_back(in_scope<UNetHead>("", options, train));
  return chain;
}

namespace {

using config::IntegerRange;

constexpr std::int64_t max_filters = 1 << 16;

#define UNET_FIELD(name, ...) TRIREME_MODEL_FIELD(UNetOptions, name, __VA_ARGS__)

std::vector<config::Field> unet_fields() {
  return pixel_fields<UNetOptions>({
      UNET_FIELD(values, (IntegerRange{0, 4096}),
                 "values to predict for each pixel or voxel; 0: classes"),
      UNET_FIELD(depth, (IntegerRange{0, 16384}), "depth of volumes; 0: the samples are images"),
      UNET_FIELD(filters, IntegerRange{1, 4096},
                 "channels of the first convolution or level; others have multiples"),
      UNET_FIELD(widest, (IntegerRange{0, max_filters}),
                 "channels at which model.filters stops doubling; 0: it does not"),
      UNET_FIELD(levels, IntegerRange{1, 12}, "halvings of the extents, and doublings after them"),
      UNET_FIELD(down, config::one_of<UNetDown>(),
                 "a halving: maxima of windows of 2, or stride 2 of the next convolution"),
      UNET_FIELD(norm, config::one_of<UNetNormKind>(),
                 "behind each convolution: batch = of each channel over the micro-batch; instance "
                 "= of each channel of a sample; group = of norm_groups groups of them"),
      UNET_FIELD(norm_groups, (IntegerRange{1, max_filters}), "of model.norm: group"),
      UNET_FIELD(nonlinearity, config::one_of<UNetActivation>(),
                 "behind each norm; leaky_relu has the slope 0.01"),
  });
}

// Convolutions with stride 2 round odd extents up, and nothing of what they halve is left over.
void check_strides(const config::Subject& subject, const UNetOptions& model) {
  if (model.down != UNetDown::stride) return;
  const std::int64_t step = std::int64_t{1} << model.levels;
  for (const auto& [key, extent] :
       {std::pair{"model.image_size", model.image_size},
        std::pair{"model.image_width", model.width()}, std::pair{"model.depth", model.depth}}) {
    if (extent % step != 0)
      refuse(subject, key,
             "{} with model.down: stride and model.levels = {}; use a multiple of {}, such as {}, "
             "or model.down: pool",
             extent, model.levels, step, (extent + step - 1) / step * step);
  }
}

void check_groups(const config::Subject& subject, const UNetOptions& model) {
  std::int64_t common = model.filters;
  for (std::int64_t level = 0; level <= model.levels; ++level)
    common = std::gcd(common, model.filters_of(level));
  if (common % model.norm_groups != 0)
    refuse(subject, "model.norm_groups",
           "{} groups do not divide the {} to {} channels of the levels; use {}", model.norm_groups,
           model.filters, model.filters_of(model.levels),
           config::any_of(config::near_divisors(common, model.norm_groups)));
}

void check_norm(const config::Subject& subject, const UNetOptions& model) {
  if (model.norm != UNetNormKind::group) {
    if (model.norm_groups != UNetOptions{}.norm_groups)
      refuse(subject, "model.norm_groups",
             "{} has no effect with model.norm: {}; use group, or remove it", model.norm_groups,
             name_of(model.norm));
  } else {
    check_groups(subject, model);
  }
  std::int64_t values = std::max<std::int64_t>(model.depth >> model.levels, 1) *
                        (model.image_size >> model.levels) * (model.width() >> model.levels);
  if (model.norm == UNetNormKind::group)
    values *= model.filters_of(model.levels) / model.norm_groups;
  if (model.norm != UNetNormKind::batch && values == 1)
    refuse(subject, "model.levels",
           "{} leave one value to each {} norm of the bottom, which makes it 0; use fewer, or "
           "larger samples",
           model.levels, name_of(model.norm));
}

TargetSpec targets_of(const ModelConfig& model) {
  const auto& options = model.as<UNetOptions>();
  if (options.values == 0) return pixels_of<UNetOptions>(model);
  const Shape input = options.input(1);
  std::vector<std::int64_t> extents(input.extents().begin() + 1, input.extents().end());
  extents.back() = options.values;
  return {TargetKind::values, Shape(extents), 0};
}

// Of values.
void check_targets(const config::Subject& subject, const UNetOptions& model) {
  if (model.values == 0) return;
  const UNetOptions defaults;
  const auto refuse_classes = [&](std::string_view key) {
    refuse(subject, key,
           "has no effect with model.values: {}: pixels have values to predict, not classes; "
           "remove it, or use model.values: 0",
           model.values);
  };
  if (model.classes != defaults.classes) refuse_classes("model.classes");
  if (!model.class_weights.empty()) refuse_classes("model.class_weights");
}

void check_unet(const config::Subject& subject) {
  const auto& model = subject.config.model.as<UNetOptions>();
  check_pixels(subject, model);
  std::int64_t shortest = std::min(model.image_size, model.width());
  if (model.depth > 0) shortest = std::min(shortest, model.depth);
  const std::int64_t fits = std::bit_width(static_cast<std::uint64_t>(shortest)) - 1;
  if (model.levels > fits) {
    refuse(subject, "model.levels", "{} halvings of {} leave less than one; use {}", model.levels,
           shortest, fits > 0 ? fmt::format("{} or fewer", fits) : "samples of 2 or more pixels");
  }
  if (model.filters_of(model.levels) > max_filters) {
    refuse(subject, "model.filters", "{} grow to {} at the bottom, more than {}; use {} or less",
           model.filters, model.filters << model.levels, max_filters, max_filters >> model.levels);
  }
  if (model.widest > 0 && model.widest < model.filters)
    refuse(subject, "model.widest", "{} is less than model.filters = {}; use 0, {} or more",
           model.widest, model.filters, model.filters);
  check_targets(subject, model);
  check_strides(subject, model);
  check_norm(subject, model);
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
  return unet_chain(config.model.as<UNetOptions>(), config.train);
}

}  // namespace trireme
