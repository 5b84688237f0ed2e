// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "models/fields/pixel_loss.h"
#include "models/fields/value_loss.h"
#include "models/layers/batch_norm.h"
#include "models/layers/convolution.h"
#include "models/layers/group_norm.h"
#include "models/layers/linear_layer.h"
#include "models/layers/max_pooling.h"
#include "models/layers/transposed_convolution.h"
#include "models/spatial/field_input.h"
#include "models/unet/unet.h"

namespace trireme {

// Norm and activation behind a convolution.
struct UNetNorm {
  // Declares "<name>" as BatchNorm or GroupNorm does.
  UNetNorm(Blueprint& blueprint, std::string_view name, const Shape& shape,
           const UNetOptions& options);

  std::variant<BatchNorm, GroupNorm> norm;
  UNetActivation activation;
  Activation convolved;  // its input
  Activation gradient;   // of the convolution's output
};

// Two 3x3 (3x3x3) convolutions with norm and activation; offers the result as a skip and hands on
// its maxima over windows of two, or the next level's first convolution of it, with stride 2.
class UNetEncoder final : public Layer {
 public:
  // Level 0 takes the batch's inputs; level options.levels, the bottom, offers and pools nothing.
  UNetEncoder(Blueprint& blueprint, const std::string& name, const UNetOptions& options,
              std::int64_t level);

  void add_limits(ModelLimits& limits) const override;
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;

 private:
  std::vector<Extent> axes_{};         // of level 0
  std::optional<FieldInput> input_{};  // of level 0
  std::optional<Convolution> first_;   // absent where it is the down_ of the level before
  Convolution second_;
  std::optional<UNetNorm> first_norm_;
  UNetNorm second_norm_;
  Activation between_{};          // first norm's output
  Activation result_gradient_{};  // of second norm's output
  std::optional<SkipId> skip_{};
  std::optional<MaxPooling> pooling_{};  // or
  std::optional<Convolution> down_{};
  std::optional<UNetNorm> down_norm_{};
};

// Doubles the extents to those of the encoder's skip; then the first convolution sees both, and a
// second one follows. A convolution of joined channels is the sum of two convolutions, so nothing
// is joined: less is copied and kept.
class UNetDecoder final : public Layer {
 public:
  UNetDecoder(Blueprint& blueprint, const std::string& name, const UNetOptions& options,
              std::int64_t level);

  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;

 private:
  OpenSkip skip_;
  TransposedConvolution up_;
  Convolution of_skip_, of_up_, second_;
  UNetNorm first_norm_, second_norm_;
  Activation raised_;   // after up_
  Activation between_;  // first norm's output
  Activation part_;     // of_up_'s output; in backward the gradient of raised_ and of between_
};

// A linear layer for each pixel and the loss.
class UNetHead final : public Layer {
 public:
  // Declares "classifier", or of values "output".
  UNetHead(Blueprint& blueprint, const UNetOptions& options, const TrainConfig& train);

  [[nodiscard]] const HeadInfo* head() const override { return &info_; }
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;

 private:
  Linear linear_;
  std::variant<PixelLoss, ValueLoss> loss_;
  Activation logits_;
  HeadInfo info_;
};

}  // namespace trireme
