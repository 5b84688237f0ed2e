// SPDX-License-Identifier: Apache-2.0
// Vision transformer (Dosovitskiy et al., 2021): a linear map of image patches to rows of the
// residual stream, learned positions, pre-norm blocks (transformer/) without a mask, a final norm,
// and a linear classifier on a class token or on the mean of all rows. DeiT (Touvron et al., 2021)
// has a second token before the patches. Initialisation as for gpt/gpt.h, positions and tokens with
// init_std.
#pragma once

#include "models/heads/head_options.h"
#include "models/transformer/activation_names.h"
#include "models/transformer/transformer.h"
#include "runtime/config/choices.h"
#include "runtime/config/key_table.h"
#include "runtime/ops/random/augment.h"

namespace trireme {

namespace hugging_face {
struct Exchange;
[[nodiscard]] const Exchange& vit_exchange();
}  // namespace hugging_face

inline constexpr std::string_view vit_name = "vit";

enum class Pooling : std::uint8_t { class_token, mean };
[[nodiscard]] constexpr auto names_of(Pooling /*key*/) {
  return std::to_array<Named<Pooling>>(
      {{Pooling::class_token, "class_token"}, {Pooling::mean, "mean"}});
}

// Keys of the model section for family vit; documented in vit.cpp. 0 means "auto".
struct VitOptions {
  std::int64_t layers = 4;
  std::int64_t hidden = 256;
  std::int64_t heads = 4;
  std::int64_t intermediate = 0;
  double dropout = 0;
  double init_std = 0.02;
  double norm_epsilon = 1e-5;
  GeluForm gelu = GeluForm::exact;
  std::int64_t patch = 16;
  Pooling pooling = Pooling::class_token;
  bool distillation_token = false;
  std::int64_t image_size = 224;
  std::int64_t image_width = 0;
  std::int64_t channels = 3;
  HeadKind head = HeadKind::automatic;
  std::int64_t classes = 1000;
  std::int64_t targets = 4;
  friend bool operator==(const VitOptions&, const VitOptions&) = default;

  [[nodiscard]] std::int64_t width_of_images() const {
    return image_width > 0 ? image_width : image_size;
  }
  [[nodiscard]] std::int64_t class_tokens() const {
    return (pooling == Pooling::class_token ? 1 : 0) + (distillation_token ? 1 : 0);
  }
  // Rows per sample: the patches and the tokens before them.
  [[nodiscard]] std::int64_t rows() const {
    return class_tokens() + (image_size / patch) * (width_of_images() / patch);
  }
};

// Resolves every "auto"; the context is the number of rows per sample.
[[nodiscard]] TransformerOptions transformer_options(const VitOptions& options);

// Inputs (micro_batch, height, width, channels) u8 or f32; targets (micro_batch) i32, or
// (micro_batch, K) f32 of values and labels. `augment` is applied to the inputs; random only in
// training. `head` follows from the options.
[[nodiscard]] Chain vit_chain(const VitOptions& options, const ops::AugmentOptions& augment,
                              const HeadChoice& head);
[[nodiscard]] inline Chain vit_chain(const VitOptions& options,
                                     const ops::AugmentOptions& augment = {}) {
  return vit_chain(options, augment, head_choice(options));
}

[[nodiscard]] config::ModelFamily vit_family();
[[nodiscard]] Chain vit_chain(const Config& config);

}  // namespace trireme
