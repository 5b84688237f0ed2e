// SPDX-License-Identifier: Apache-2.0
#include "models/registry.h"

#include <algorithm>
#include <array>

#include "models/gpt/gpt.h"
#include "models/gpt/gpt_config.h"
#include "models/resnet/resnet_config.h"

namespace trireme {
namespace {

ModelTraits gpt_traits(const ModelConfig& model) {
  const auto& gpt = model.as<GptOptions>();
  return {.input = InputKind::tokens,
          .targets_per_sample = gpt.context,
          .item_name = "tokens",
          .context = gpt.context,
          .vocabulary = gpt.vocabulary};
}

ModelTraits resnet_traits(const ModelConfig& model) {
  const auto& resnet = model.as<ResNetOptions>();
  return {.input = InputKind::images,
          .targets_per_sample = 1,
          .item_name = "images",
          .image_size = resnet.image_size,
          .image_width = width_of_images(resnet),
          .channels = resnet.channels,
          .classes = resnet.classes};
}

Chain gpt_chain_of(const Config& config) {
  return gpt_chain(config.model.as<GptOptions>());
}

const Family& family_of(const ModelConfig& model) {
  const auto known = families();
  if (model.family.empty()) return known.front();
  const auto found =
      std::ranges::find(known, model.family, [](const Family& family) { return family.keys.name; });
  TRIREME_EXPECTS(found != known.end(), "model.family {} is unknown", model.family);
  return *found;
}

}  // namespace

std::span<const Family> families() {
  static const std::array all = {Family{gpt2_family(), gpt_traits, gpt_chain_of},
                                 Family{resnet_family(), resnet_traits, resnet_chain}};
  return all;
}

ModelTraits traits_of(const ModelConfig& model) {
  return family_of(model).traits(model);
}

DType compute_dtype(Precision precision) {
  if (precision == Precision::fp16) return DType::f16;
  return precision == Precision::bf16 || precision == Precision::fp8 ? DType::bf16 : DType::f32;
}

Chain make_chain(const Config& config) {
  return family_of(config.model).chain(config);
}

std::unique_ptr<Model> make_model(Device& device, const Config& config, std::int64_t micro_batch,
                                  bool training) {
  return std::make_unique<Model>(device, make_chain(config),
                                 BuildOptions{.compute = compute_dtype(config.precision),
                                              .fp8 = config.precision == Precision::fp8,
                                              .micro_batch = micro_batch,
                                              .training = training});
}

}  // namespace trireme
