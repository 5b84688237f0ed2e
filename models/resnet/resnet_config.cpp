// SPDX-License-Identifier: Apache-2.0
#include "models/resnet/resnet_config.h"

#include <algorithm>

#include "runtime/config/rules/rules.h"

namespace trireme {
namespace {

using config::IntegerRange;

constexpr std::int64_t max_channels = 1 << 20;
constexpr std::int64_t packed_channels = 4;  // that the normalisation of bytes has room for

#define RESNET_FIELD(name, ...) TRIREME_MODEL_FIELD(ResNetOptions, name, __VA_ARGS__)

std::vector<config::Field> resnet_fields() {
  return {
      RESNET_FIELD(block, config::one_of<ResNetBlockKind>(), "residual block"),
      RESNET_FIELD(stages, (IntegerRange{1, 1000, {1, 8}}),
                   "blocks per stage; each stage after the first halves the image"),
      RESNET_FIELD(width, IntegerRange{1, 8192},
                   "channels of the first stage; doubles with each stage"),
      RESNET_FIELD(stem, config::one_of<ResNetStemKind>(),
                   "7x7 stride 2 and pooling, or 3x3 for small images"),
      RESNET_FIELD(image_size, IntegerRange{1, 16384}, "height and width of the images in pixels"),
      RESNET_FIELD(image_width, (IntegerRange{1, 16384, {}, "auto"}),
                   "width where it is not the height; auto = image_size"),
      RESNET_FIELD(channels, IntegerRange{1, 4096}, "channels of the images"),
      RESNET_FIELD(classes, IntegerRange{2, 10'000'000}, "labels"),
  };
}

// Each stage but the first halves the image; the ImageNet stem quarters it before.
void check_sizes(const config::Subject& subject, const ResNetOptions& model) {
  const bool large = model.stem == ResNetStemKind::imagenet;
  const auto halvings = static_cast<std::int64_t>(model.stages.size()) - 1 + (large ? 2 : 0);
  const std::int64_t smallest = std::int64_t{1} << halvings;
  const std::int64_t side = std::min(model.image_size, width_of_images(model));
  if (side < smallest) {
    refuse(subject, side < model.image_size ? "model.image_width" : "model.image_size",
           "{} pixels are less than one after stem {} and {} stages, which need {}; use "
           "{} or more{} or fewer stages",
           side, name_of(model.stem), model.stages.size(), smallest, smallest,
           large ? ", stem: small" : "");
  }
  const std::int64_t widest = (model.width << (model.stages.size() - 1)) *
                              (model.block == ResNetBlockKind::bottleneck ? 4 : 1);
  if (widest > max_channels) {
    refuse(subject, "model.width",
           "{} grows to {} channels in the last of {} stages, more than {}; use {} or less",
           model.width, widest, model.stages.size(), max_channels,
           model.width * max_channels / widest);
  }
}

void check_per_channel(const config::Subject& subject, std::string_view key,
                       const std::vector<double>& values, std::int64_t channels) {
  if (!values.empty() && static_cast<std::int64_t>(values.size()) != channels) {
    refuse(subject, key, "{} values for model.channels = {}; give {} or leave it out",
           values.size(), channels, channels);
  }
}

void check_resnet(const config::Subject& subject) {
  const auto& model = subject.config.model.as<ResNetOptions>();
  const DataConfig& data = subject.config.data;
  check_sizes(subject, model);
  check_per_channel(subject, "data.mean", data.mean, model.channels);
  check_per_channel(subject, "data.std", data.std, model.channels);
  const std::int64_t side = std::min(model.image_size, width_of_images(model));
  if (data.eval_resize > 0 && data.eval_resize < side) {
    refuse(subject, "data.eval_resize", "{} is less than the {} pixels of the model's short side",
           data.eval_resize, side);
  }
  if (data.has_images() && model.channels != 1 && model.channels != 3) {
    refuse(subject, "model.channels", "{}, and images are read with 1 channel or 3",
           model.channels);
  }
  if (data.crop_padding >= side) {
    refuse(subject, "data.crop_padding",
           "{} is not below model.image_{} = {}; a crop could miss the image", data.crop_padding,
           side < model.image_size ? "width" : "size", side);
  }
  if (!data.in_place() && !data.path.empty() && model.channels > packed_channels) {
    refuse(subject, "model.channels",
           "{}, and packed images have 1 or 3 channels; use 1 or 3, or name HDF5 files by "
           "data.files",
           model.channels);
  }
}

}  // namespace

config::ModelFamily resnet_family() {
  return {.name = "resnet",
          .input = config::Input::images,
          .fields = resnet_fields,
          .check = check_resnet,
          .limits = [](const Config& config) { return limits_of(resnet_chain(config)); },
          .targets_per_sample = [](const ModelConfig&) { return std::int64_t{1}; }};
}

Chain resnet_chain(const Config& config) {
  ops::AugmentOptions augment{
      .crop_padding = config.data.crop_padding, .flip = config.data.flip, .seed = config.run.seed};
  const auto to_float = [](double value) { return static_cast<float>(value); };
  // Files read in place are scaled where they are read.
  if (!config.data.float_samples()) {
    TRIREME_EXPECTS(config.data.mean.size() <= augment.mean.size() &&
                        config.data.std.size() <= augment.stddev.size(),
                    "means of {} channels", config.data.mean.size());
    std::ranges::transform(config.data.mean, augment.mean.begin(), to_float);
    std::ranges::transform(config.data.std, augment.stddev.begin(), to_float);
  }
  return resnet_chain(config.model.as<ResNetOptions>(), augment);
}

}  // namespace trireme
