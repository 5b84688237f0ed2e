// SPDX-License-Identifier: Apache-2.0
#include "models/registry.h"

#include <algorithm>
#include <array>

#include "models/bert/bert.h"
#include "models/cosmoflow/cosmoflow.h"
#include "models/deepcam/deepcam.h"
#include "models/gemma/gemma.h"
#include "models/gpt/gpt.h"
#include "models/gpt_oss/gpt_oss.h"
#include "models/llama/llama.h"
#include "models/mlp/mlp.h"
#include "models/resnet/resnet.h"
#include "models/transformer/exchange.h"
#include "models/unet/unet.h"
#include "models/vit/vit.h"

namespace trireme {
namespace {

template <typename Options>
bool is_language(const Options& options) {
  return head_choice(options).is_language();
}

// Whether a sample has targets as a whole.
template <typename Options>
bool whole_texts(const Options& options) {
  return !is_language(options) && !head_choice(options).of_tokens();
}

template <typename Options>
std::int64_t pad_token_of(const Options& options) {
  if constexpr (requires { options.pad_token; }) return options.pad_token;
  return 0;
}

template <typename Options>
ModelTraits text_traits(const ModelConfig& model) {
  const auto& options = model.as<Options>();
  return {.input = InputKind::tokens,
          .rows_per_sample = options.context,
          .item_name = whole_texts(options) ? "samples" : "tokens",
          .generates = transformer_options(options).causal && is_language(options),
          .context = options.context,
          .vocabulary = options.vocabulary,
          .pad_token = pad_token_of(options),
          .pools_last = transformer_options(options).causal && whole_texts(options)};
}

ModelTraits resnet_traits(const ModelConfig& model) {
  const auto& resnet = model.as<ResNetOptions>();
  return {.input = InputKind::images,
          .item_name = resnet.depth > 0 ? "samples" : "images",
          .image_depth = resnet.depth,
          .image_size = resnet.image_size,
          .image_width = width_of_images(resnet),
          .channels = resnet.channels,
          .classes = head_targets(head_choice(resnet)).classes};
}

ModelTraits bert_traits(const ModelConfig& model) {
  ModelTraits traits = text_traits<BertOptions>(model);
  traits.skips_padding = model.as<BertOptions>().position_offset > 0;
  if (!is_language(model.as<BertOptions>())) return traits;
  traits.mask_token = model.as<BertOptions>().mask_token;
  traits.mask_probability = model.as<BertOptions>().mask_probability;
  return traits;
}

ModelTraits vit_traits(const ModelConfig& model) {
  const auto& vit = model.as<VitOptions>();
  return {.input = InputKind::images,
          .rows_per_sample = vit.rows(),
          .item_name = "images",
          .image_size = vit.image_size,
          .image_width = vit.width_of_images(),
          .channels = vit.channels,
          .classes = head_targets(head_choice(vit)).classes};
}

ModelTraits mlp_traits(const ModelConfig& model) {
  const auto& mlp = model.as<MlpOptions>();
  return {.input = InputKind::fields,
          .item_name = "samples",
          .image_size = 1,
          .image_width = mlp.length,
          .channels = mlp.channels,
          .classes = head_targets(head_choice(mlp)).classes};
}

ModelTraits cosmoflow_traits(const ModelConfig& model) {
  const auto& options = model.as<CosmoFlowOptions>();
  return {.input = InputKind::fields,
          .item_name = "samples",
          .image_depth = options.size,
          .image_size = options.size,
          .image_width = options.size,
          .channels = options.channels};
}

template <typename Options>
ModelTraits pixel_traits(const ModelConfig& model) {
  const auto& options = model.as<Options>();
  return {.input = InputKind::fields,
          .item_name = "samples",
          .image_size = options.image_size,
          .image_width = options.width(),
          .channels = options.channels,
          .classes = options.classes};
}

ModelTraits unet_traits(const ModelConfig& model) {
  ModelTraits traits = pixel_traits<UNetOptions>(model);
  traits.image_depth = model.as<UNetOptions>().depth;
  return traits;
}

template <typename Options>
Chain text_chain(const Config& config) {
  TransformerOptions options = transformer_options(config.model.as<Options>());
  if (!options.head.is_language())
    options.head = head_choice(config.model.as<Options>(), config.train);
  return transformer_chain(options);
}

}  // namespace

const Family& family_of(const ModelConfig& model) {
  const auto known = families();
  if (model.family.empty()) return known.front();
  const auto found =
      std::ranges::find(known, model.family, [](const Family& family) { return family.keys.name; });
  TRIREME_EXPECTS(found != known.end(), "model.family {} is unknown", model.family);
  return *found;
}

std::span<const Family> families() {
  static const std::array all = {
      Family{gpt2_family(), text_traits<GptOptions>, text_chain<GptOptions>,
             &hugging_face::gpt2_exchange()},
      Family{llama_family(), text_traits<LlamaOptions>, text_chain<LlamaOptions>,
             &hugging_face::llama_exchange()},
      Family{gemma_family(), text_traits<GemmaOptions>, text_chain<GemmaOptions>,
             &hugging_face::gemma_exchange()},
      Family{gpt_oss_family(), text_traits<GptOssOptions>, text_chain<GptOssOptions>,
             &hugging_face::gpt_oss_exchange()},
      Family{resnet_family(), resnet_traits, resnet_chain, &hugging_face::resnet_exchange()},
      Family{vit_family(), vit_traits, vit_chain, &hugging_face::vit_exchange()},
      Family{bert_family(), bert_traits, text_chain<BertOptions>, &hugging_face::bert_exchange()},
      Family{cosmoflow_family(), cosmoflow_traits, cosmoflow_chain},
      Family{unet_family(), unet_traits, unet_chain},
      Family{deepcam_family(), pixel_traits<DeepCamOptions>, deepcam_chain},
      Family{mlp_family(), mlp_traits, mlp_chain}};
  return all;
}

ModelTraits traits_of(const ModelConfig& model) {
  const Family& family = family_of(model);
  ModelTraits traits = family.traits(model);
  traits.targets = family.keys.targets(model);
  return traits;
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
  return std::make_unique<Model>(
      device, make_chain(config),
      BuildOptions{.compute = compute_dtype(config.precision),
                   .micro_batch = micro_batch,
                   .training = training,
                   .fp8 = {.on = config.precision == Precision::fp8, .recipe = config.fp8_recipe}});
}

}  // namespace trireme
