// SPDX-License-Identifier: Apache-2.0
#include "models/images/image_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

constexpr std::int64_t packed_channels = 4;  // limit of the byte normalisation

void check_per_channel(const config::Subject& subject, std::string_view key,
                       const std::vector<double>& values, std::int64_t channels) {
  if (!values.empty() && static_cast<std::int64_t>(values.size()) != channels) {
    refuse(subject, key, "{} values for model.channels = {}; give {} or leave it out",
           values.size(), channels, channels);
  }
}

}  // namespace

void check_image_data(const config::Subject& subject, const ImageExtent& image) {
  const DataConfig& data = subject.config.data;
  check_per_channel(subject, "data.mean", data.mean, image.channels);
  check_per_channel(subject, "data.std", data.std, image.channels);
  const std::int64_t side = image.short_side();
  if (data.eval_resize > 0 && data.eval_resize < side) {
    refuse(subject, "data.eval_resize", "{} is less than the {} pixels of the model's short side",
           data.eval_resize, side);
  }
  if (data.kind() == SourceKind::images && image.channels != 1 && image.channels != 3) {
    refuse(subject, "model.channels", "{}, and images are read with 1 channel or 3",
           image.channels);
  }
  if (data.crop_padding >= side) {
    refuse(subject, "data.crop_padding", "{} is not below {} = {}; a crop could miss the image",
           data.crop_padding, image.short_key(), side);
  }
  if ((data.mixup > 0 || data.cutmix > 0) && subject.config.train.micro_batch == 1 &&
      subject.purpose == Purpose::train) {
    refuse(subject, data.mixup > 0 ? "data.mixup" : "data.cutmix",
           "{} with train.micro_batch = 1, where there is no other image to mix with; use a "
           "micro-batch of 2 or more, or 0",
           data.mixup > 0 ? data.mixup : data.cutmix);
  }
  if (data.kind() == SourceKind::packed && !data.path.empty() && image.channels > packed_channels) {
    refuse(subject, "model.channels",
           "{}, and packed images have 1 or 3 channels; use 1 or 3, or name HDF5 files by "
           "data.files",
           image.channels);
  }
}

ops::AugmentOptions augment_options(const Config& config, const ImageExtent& image) {
  ops::AugmentOptions augment{.crop_padding = config.data.crop_padding,
                              .flip = config.data.flip,
                              .seed = config.run.seed,
                              .mix = {.mixup = config.data.mixup,
                                      .cutmix = config.data.cutmix,
                                      .height = image.height,
                                      .width = image.width,
                                      .seed = config.run.seed}};
  const auto to_float = [](double value) { return static_cast<float>(value); };
  // Files read in place are scaled when read.
  if (!config.data.float_samples()) {
    TRIREME_EXPECTS(config.data.mean.size() <= augment.mean.size() &&
                        config.data.std.size() <= augment.stddev.size(),
                    "means of {} channels", config.data.mean.size());
    std::ranges::transform(config.data.mean, augment.mean.begin(), to_float);
    std::ranges::transform(config.data.std, augment.stddev.begin(), to_float);
  }
  return augment;
}

}  // namespace trireme

namespace trireme::hugging_face {

std::string image_size_text(std::int64_t height, std::int64_t width) {
  return height == width ? fmt::format("\"image_size\": {}", height)
                         : fmt::format("\"image_size\": [{}, {}]", height, width);
}

ImageSides image_sides_of(const HfKeys& keys) {
  const HfKeys::Json* const size = keys.find("image_size");
  if (size != nullptr && size->is_array() && size->size() == 2 && (*size)[0].is_number_integer() &&
      (*size)[1].is_number_integer())
    return {(*size)[0].get<std::int64_t>(), (*size)[1].get<std::int64_t>()};
  return {keys.size_or("image_size", 224), 0};
}

}  // namespace trireme::hugging_face
