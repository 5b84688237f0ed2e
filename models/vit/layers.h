// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/images/image_input.h"
#include "models/layers/dropout.h"
#include "models/layers/linear_layer.h"
#include "models/layers/norm.h"
#include "models/vit/vit.h"

namespace trireme {

// u8 or f32 images (B, H, W, channels) -> augmented, normalised, cut into patches -> the local rows
// of (B, T, C): one matrix with bias maps each patch, the class token is prepended, and positions
// are added. Every tensor rank computes all rows, which costs little compared to a block.
class PatchEmbedding final : public Layer {
 public:
  // Declares "patch.weight" (C, patch * patch * channels), pixels in reading order, channels
  // innermost, "patch.bias" and "class_token" (C), and "position.weight" (T, C).
  PatchEmbedding(Blueprint& blueprint, const VitOptions& options, const TransformerOptions& block,
                 const ops::AugmentOptions& augment);

  [[nodiscard]] double forward_flops() const override;
  [[nodiscard]] bool splits_backward() const override { return true; }
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;
  void backward_weight(const Context& context, const Tensor& x) override;

 private:
  [[nodiscard]] Tensor added_rows(const Context& context) const;
  void accumulate(const Context& context, const Tensor& dy) const;
  // Slices of (T, C): the class token's row, and the patches' rows.
  [[nodiscard]] Tensor class_row(const Tensor& rows) const;
  [[nodiscard]] Tensor patch_rows(const Tensor& rows) const;

  RowSplit rows_;
  bool split_backward_;
  std::int64_t patch_, class_tokens_;
  ImageInput input_;
  ParamId weight_, bias_, class_token_, positions_;
  Activation image_, patches_;           // (B, H, W, channels); (B, T, patch * patch * channels)
  Activation embedded_{};                // (B, T, C), if rows are split
  Activation added_, added_gradient_{};  // (T, C): added to every sample's rows
  Dropout dropout_;
};

// Final norm, the class token's row or the mean of all rows, a linear classifier and cross-entropy.
// The local rows of (B, T, C) -> losses of the context, on every rank: all tensor ranks compute the
// few logits whole.
class ClassHead final : public Layer {
 public:
  // Declares "final_norm" and "classifier".
  ClassHead(Blueprint& blueprint, const TransformerOptions& block, const VitOptions& options,
            const ops::MixOptions& mix);

  [[nodiscard]] const HeadInfo* head() const override { return &info_; }
  [[nodiscard]] double forward_flops() const override {
    return linear_.forward_flops(pooled_.shape[0]);
  }
  [[nodiscard]] bool splits_backward() const override { return true; }
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;
  void backward_weight(const Context& context, const Tensor& x) override;

 private:
  // (B, T, C) as an image of one column, for the image pooling op.
  [[nodiscard]] Tensor as_image(const Tensor& rows) const;

  RowSplit rows_;
  bool split_backward_;
  Pooling pooling_;
  HeadInfo info_;
  Norm norm_;
  Linear linear_;
  ClassLoss loss_;
  Activation normed_, dnormed_;  // (B, T, C): all rows
  Activation pooled_, dpooled_;  // (B, C)
};

}  // namespace trireme
