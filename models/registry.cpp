// SPDX-License-Identifier: Apache-2.0
#include "models/registry.h"

#include <algorithm>

#include "models/gpt/gpt.h"
#include "models/resnet/resnet.h"

namespace trireme {
namespace {

GptOptions gpt_options(const ModelConfig& model) {
  return {.layers = model.layers,
          .hidden = model.hidden,
          .heads = model.heads,
          .context = model.context,
          .vocabulary = model.vocabulary,
          .init_deviation = static_cast<float>(model.init_deviation),
          .sinusoidal_positions = model.position_init == "sinusoidal",
          .dropout = static_cast<float>(model.dropout)};
}

ResNetOptions resnet_options(const Config& config) {
  const ModelConfig& model = config.model;
  ops::AugmentOptions augment{
      .crop_padding = config.data.crop_padding, .flip = config.data.flip, .seed = config.run.seed};
  const auto to_float = [](double value) { return static_cast<float>(value); };
  std::transform(config.data.mean.begin(), config.data.mean.end(), augment.mean.begin(), to_float);
  std::transform(config.data.deviation.begin(), config.data.deviation.end(),
                 augment.deviation.begin(), to_float);
  return {.bottleneck = model.block == "bottleneck",
          .small_stem = model.stem == "small",
          .stages = model.stages,
          .width = model.width,
          .image_size = model.image_size,
          .channels = model.channels,
          .classes = model.classes,
          .augment = augment};
}

}  // namespace

ModelTraits traits_of(const ModelConfig& model) {
  if (model.family == "gpt2") return {InputKind::tokens, model.context, "tokens"};
  return {InputKind::images, 1, "images"};
}

DType compute_dtype(const std::string& precision) {
  if (precision == "fp16") return DType::f16;
  return precision == "bf16" || precision == "fp8" ? DType::bf16 : DType::f32;
}

Chain make_chain(const Config& config) {
  return config.model.family == "gpt2" ? gpt_chain(gpt_options(config.model))
                                       : resnet_chain(resnet_options(config));
}

std::unique_ptr<Model> make_model(Device& device, const Config& config, std::int64_t micro_batch,
                                  bool training) {
  return std::make_unique<Model>(device, make_chain(config),
                                 BuildOptions{.compute = compute_dtype(config.precision),
                                              .fp8 = config.precision == "fp8",
                                              .micro_batch = micro_batch,
                                              .training = training});
}

}  // namespace trireme
