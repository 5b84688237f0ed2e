// SPDX-License-Identifier: Apache-2.0
// Shapes of the models and of what they are fed.
#include <algorithm>

#include "runtime/config/rules.h"

namespace trireme::config {
namespace {

constexpr std::int64_t max_head_size =
    256;  // the attention kernels keep one head's row in registers
constexpr std::int64_t max_channels = 1 << 20;

void check_gpt2(const Subject& subject) {
  const ModelConfig& model = subject.config.model;
  const std::int64_t least = (model.hidden + max_head_size - 1) / max_head_size;
  const std::string fitting = any_of(near_divisors(model.hidden, model.heads, least));
  if (model.hidden % model.heads != 0) {
    refuse(subject, "model.heads", "{} does not divide model.hidden = {}; use {}", model.heads,
           model.hidden, fitting);
  }
  if (model.hidden / model.heads > max_head_size) {
    refuse(subject, "model.heads",
           "{} heads over model.hidden = {} are {} wide, more than {}; use {}", model.heads,
           model.hidden, model.hidden / model.heads, max_head_size, fitting);
  }
}

// Each stage but the first halves the image; the ImageNet stem quarters it before.
void check_resnet(const Subject& subject) {
  const ModelConfig& model = subject.config.model;
  const auto halvings =
      static_cast<std::int64_t>(model.stages.size()) - 1 + (model.stem == "imagenet" ? 2 : 0);
  const std::int64_t least = std::int64_t{1} << halvings;
  if (model.image_size < least) {
    const char* const stem = model.stem == "imagenet" ? ", stem: small" : "";
    refuse(subject, "model.image_size",
           "{} pixels are less than one after stem {} and {} stages, which need {}; use "
           "{} or more{} or fewer stages",
           model.image_size, model.stem, model.stages.size(), least, least, stem);
  }
  const std::int64_t widest =
      (model.width << (model.stages.size() - 1)) * (model.block == "bottleneck" ? 4 : 1);
  if (widest > max_channels) {
    refuse(subject, "model.width",
           "{} grows to {} channels in the last of {} stages, more than {}; use {} or less",
           model.width, widest, model.stages.size(), max_channels,
           model.width * max_channels / widest);
  }
}

void check_per_channel(const Subject& subject, std::string_view key,
                       const std::vector<double>& values) {
  const std::int64_t channels = subject.config.model.channels;
  if (!values.empty() && static_cast<std::int64_t>(values.size()) != channels) {
    refuse(subject, key, "{} values for model.channels = {}; give {} or leave it out",
           values.size(), channels, channels);
  }
}

}  // namespace

void check_model(const Subject& subject) {
  if (subject.config.model.family == "gpt2") check_gpt2(subject);
  if (subject.config.model.family == "resnet") check_resnet(subject);
}

void check_data(const Subject& subject) {
  const Config& config = subject.config;
  const DataConfig& data = config.data;
  if (subject.purpose == Purpose::train && data.path.empty()) {
    refuse(subject, "data.path",
           "not set; give packed shards, made with trireme data pack-text or pack-images");
  }
  if (subject.purpose == Purpose::evaluate && data.validation_path.empty()) {
    refuse(subject, "data.validation_path",
           "not set; give the packed shards to evaluate on with --data DIRECTORY");
  }
  if (config.model.family != "resnet") return;
  check_per_channel(subject, "data.mean", data.mean);
  check_per_channel(subject, "data.deviation", data.deviation);
  if (data.crop_padding >= config.model.image_size) {
    refuse(subject, "data.crop_padding",
           "{} is not below model.image_size = {}; a crop could miss the image", data.crop_padding,
           config.model.image_size);
  }
}

}  // namespace trireme::config
