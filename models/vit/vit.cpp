// SPDX-License-Identifier: Apache-2.0
#include "models/vit/vit.h"

#include <numeric>

#include "models/heads/row_head.h"
#include "models/images/image_config.h"
#include "models/transformer/keys.h"
#include "models/vit/layers.h"

namespace trireme {

TransformerOptions transformer_options(const VitOptions& options) {
  const bool given = options.intermediate > 0;
  return {.layers = options.layers,
          .hidden = options.hidden,
          .heads = options.heads,
          .kv_heads = options.heads,
          .head_size = options.hidden / options.heads,
          .intermediate = given ? options.intermediate : 4 * options.hidden,
          .intermediate_name = given ? "model.intermediate" : "4 x model.hidden",
          .context = options.rows(),
          .context_name = options.distillation_token   ? "(2 + the patches of an image)"
                          : options.class_tokens() > 0 ? "(1 + the patches of an image)"
                                                       : "the patches of an image",
          .dropout = options.dropout,
          .norm = {.epsilon = options.norm_epsilon},
          .activation = activation_of(options.gelu),
          .causal = false,
          .learned_positions = true,
          .init_std = options.init_std,
          .position_init = Init::normal(static_cast<float>(options.init_std))};
}

Chain vit_chain(const VitOptions& options, const ops::AugmentOptions& augment,
                const HeadChoice& head) {
  const TransformerOptions block = transformer_options(options);
  Chain chain{{.make = [=](Blueprint& blueprint) -> std::unique_ptr<Layer> {
    const auto scope = blueprint.layer("embedding");
    return std::make_unique<PatchEmbedding>(blueprint, options, block, augment);
  }}};
  add_blocks(chain, block);
  chain.push_back({.make = [=](Blueprint& blueprint) -> std::unique_ptr<Layer> {
    const auto scope = blueprint.layer("");
    return std::make_unique<RowHead>(
        blueprint, RowHeadOptions{.head = head,
                                  .context = block.context,
                                  .hidden = block.hidden,
                                  .pooling = options.pooling == Pooling::mean ? RowPooling::mean
                                                                              : RowPooling::first,
                                  .norm = block.norm,
                                  .init = block.matrix_init(),
                                  .mix = augment.mix});
  }});
  return chain;
}

namespace {

using config::IntegerRange;
using config::NumberRange;

#define VIT_FIELD(name, ...) TRIREME_MODEL_FIELD(VitOptions, name, __VA_ARGS__)

std::vector<config::Field> vit_fields() {
  return image_fields<VitOptions>(transformer_fields<VitOptions>({
      VIT_FIELD(patch, IntegerRange{1, 1024},
                "side of a patch in pixels; divides model.image_size and model.image_width"),
      VIT_FIELD(pooling, config::one_of<Pooling>(),
                "input of the classifier: the row of a learned class token, or the mean over all "
                "patches"),
      VIT_FIELD(distillation_token, config::Free{},
                "a second learned row, behind the class token, that no classifier reads (DeiT)"),
  }));
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
    refuse(subject, "model.patch",
           "{} cuts an image of {} x {} into {} patches, but fewer than {} are allowed",
           model.patch, image.height, image.width, rows, most_rows);
  }
}

void check_vit(const config::Subject& subject) {
  const auto& model = subject.config.model.as<VitOptions>();
  const ImageExtent image = image_extent(model);
  check_heads_of_hidden(subject, model.hidden, model.heads);
  check_patches(subject, model, image);
  if (model.distillation_token && model.pooling != Pooling::class_token)
    refuse(subject, "model.distillation_token", "is for model.pooling: class_token");
  check_image_data(subject, image);
  check_head(subject, head_choice(model), /*of_texts=*/false);
}

}  // namespace

config::ModelFamily vit_family() {
  return {.name = vit_name,
          .input = config::Input::images,
          .splits_tensor = true,
          .fields = vit_fields,
          .check = check_vit,
          .limits = [](const Config& config) { return limits_of(vit_chain(config)); },
          .targets = targets_of<VitOptions>};
}

Chain vit_chain(const Config& config) {
  const auto& model = config.model.as<VitOptions>();
  return vit_chain(model, augment_options(config, image_extent(model)),
                   head_choice(model, config.train));
}

}  // namespace trireme
