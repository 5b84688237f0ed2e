// SPDX-License-Identifier: Apache-2.0
#include "models/resnet/resnet.h"

#include "models/images/image_config.h"
#include "models/resnet/resnet_block.h"
#include "models/resnet/stem.h"

namespace trireme {

Chain resnet_chain(const ResNetOptions& options, const ops::AugmentOptions& augment,
                   const HeadChoice& head) {
  Chain chain{in_scope<ResNetStem>("stem", options, augment)};
  for (std::size_t stage = 0; stage < options.stages.size(); ++stage) {
    for (std::int64_t i = 0; i < options.stages[stage]; ++i) {
      const std::string name = fmt::format("stages.{}.{}", stage, i);
      chain.push_back(in_scope<ResNetBlock>(
          name, name,
          ResNetBlockOptions{.bottleneck = options.block == ResNetBlockKind::bottleneck,
                             .width = options.width << stage,
                             .stride = stage > 0 && i == 0 ? 2 : 1}));
      chain.back().block = true;
    }
  }
  chain.push_back(in_scope<ResNetHead>("", head, augment.mix));
  return chain;
}

namespace {

using config::IntegerRange;

constexpr std::int64_t max_channels = 1 << 20;

#define RESNET_FIELD(name, ...) TRIREME_MODEL_FIELD(ResNetOptions, name, __VA_ARGS__)

std::vector<config::Field> resnet_fields() {
  return image_fields<ResNetOptions>({
      RESNET_FIELD(block, config::one_of<ResNetBlockKind>(), "residual block"),
      RESNET_FIELD(stages, (IntegerRange{1, 1000, {1, 8}}),
                   "blocks per stage; each stage after the first halves the image"),
      RESNET_FIELD(width, IntegerRange{1, 8192},
                   "channels of the first stage; doubles with each stage"),
      RESNET_FIELD(stem, config::one_of<ResNetStemKind>(),
                   "7x7 stride 2 and pooling, or 3x3 for small images"),
      RESNET_FIELD(depth, (IntegerRange{0, 16384}), "depth of volumes; 0: the samples are images"),
  });
}

// Every stage but the first halves the image; before them the ImageNet stem quarters it.
void check_sizes(const config::Subject& subject, const ResNetOptions& model,
                 const ImageExtent& image) {
  const bool large = model.stem == ResNetStemKind::imagenet;
  const auto halvings = static_cast<std::int64_t>(model.stages.size()) - 1 + (large ? 2 : 0);
  const std::int64_t smallest = std::int64_t{1} << halvings;
  const bool flat = model.depth > 0 && model.depth < image.short_side();
  const std::int64_t side = flat ? model.depth : image.short_side();
  if (side < smallest) {
    refuse(subject, flat ? "model.depth" : image.short_key(),
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

// Flips and mixup see a volume as an image of all its rows.
void check_volumes(const config::Subject& subject) {
  const DataConfig& data = subject.config.data;
  if (data.kind() == SourceKind::images || !data.path.empty())
    refuse(subject, "model.depth",
           "volumes are read from HDF5 files alone; name them by data.files, or use depth 0");
  if (data.crop_padding > 0)
    refuse(subject, "data.crop_padding", "{} of volumes; use 0", data.crop_padding);
  if (data.cutmix > 0)
    refuse(subject, "data.cutmix", "{} of volumes; use 0, or data.mixup", data.cutmix);
}

void check_resnet(const config::Subject& subject) {
  const auto& model = subject.config.model.as<ResNetOptions>();
  const ImageExtent image = image_extent(model);
  check_sizes(subject, model, image);
  check_image_data(subject, image);
  check_head(subject, head_choice(model), /*of_texts=*/false);
  if (model.depth > 0) check_volumes(subject);
}

}  // namespace

config::ModelFamily resnet_family() {
  return {.name = resnet_name,
          .input = config::Input::images,
          .volumes = [](const ModelConfig& model) { return model.as<ResNetOptions>().depth > 0; },
          .fields = resnet_fields,
          .check = check_resnet,
          .limits = [](const Config& config) { return limits_of(resnet_chain(config)); },
          .targets = targets_of<ResNetOptions>};
}

Chain resnet_chain(const Config& config) {
  const auto& model = config.model.as<ResNetOptions>();
  return resnet_chain(model, augment_options(config, image_extent(model)),
                      head_choice(model, config.train));
}

}  // namespace trireme
