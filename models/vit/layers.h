// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/images/image_input.h"
#include "models/layers/blocks.h"
#include "models/layers/dropout.h"
#include "models/vit/vit.h"

namespace trireme {

// u8 or f32 images (B, H, W, channels) -> augmented, normalised, cut into patches -> the local rows
// of (B, T, C): one matrix with bias maps each patch, tokens are prepended, and positions are
// added. Every tensor rank computes all rows, which costs little compared to a block.
class PatchEmbedding final : public Layer {
 public:
  // Declares "patch.weight" (C, patch * patch * channels), pixels in reading order, channels
  // innermost, "patch.bias", "class_token" and "distillation_token" (C), and "position.weight"
  // (T, C).
  PatchEmbedding(Blueprint& blueprint, const VitOptions& options, const TransformerOptions& block,
                 const ops::AugmentOptions& augment);

  [[nodiscard]] bool splits_backward() const override { return true; }
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;
  void backward_weight(const Context& context, const Tensor& x) override;

 private:
  [[nodiscard]] Tensor added_rows(const Context& context) const;
  void accumulate(const Context& context, const Tensor& dy) const;
  // Slices of (T, C): the row of a token before the patches, and the patches' rows.
  [[nodiscard]] static Tensor token_row(const Tensor& rows, std::int64_t index);
  [[nodiscard]] Tensor patch_rows(const Tensor& rows) const;

  RowSplit rows_;
  bool split_backward_;
  std::int64_t patch_, class_tokens_;
  ImageInput input_;
  ParamId weight_, bias_, positions_;
  std::vector<ParamId> tokens_;          // before the patches
  Activation image_, patches_;           // (B, H, W, channels); (B, T, patch * patch * channels)
  Activation embedded_{};                // (B, T, C), if rows are split
  Activation added_, added_gradient_{};  // (T, C): added to every sample's rows
  Dropout dropout_;
};

}  // namespace trireme
