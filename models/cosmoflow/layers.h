// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "models/cosmoflow/cosmoflow.h"
#include "models/fields/value_loss.h"
#include "models/layers/convolution.h"
#include "models/layers/linear_layer.h"
#include "models/layers/max_pooling.h"
#include "models/spatial/field_input.h"
#include "models/spatial/sample_gather.h"

namespace trireme {

// 3x3x3 convolution with bias, max pooling by 2, LeakyReLU: (B, D, H, W, C) -> (B, D/2, H/2, W/2,
// C'). The reference pools after the LeakyReLU. Both are increasing, so the results are equal, but
// only an eighth of the values gets a bias and an activation, and forward keeps one byte for each
// value of the convolution instead of the value.
class CosmoFlowBlock final : public Layer {
 public:
  // Declares "convolution.weight" (filters, 3, 3, 3, C), Glorot-initialised and not decayed, and
  // "convolution.bias". Block 0 takes the batch's inputs.
  CosmoFlowBlock(Blueprint& blueprint, const std::string& name, const CosmoFlowOptions& options,
                 std::int64_t index);

  [[nodiscard]] double forward_flops() const override { return convolution_.forward_flops(); }
  void add_limits(ModelLimits& limits) const override;
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;

 private:
  std::vector<Extent> axes_{};  // of block 0
  float slope_;
  std::optional<FieldInput> input_{};  // of block 0
  Convolution convolution_;
  MaxPooling pooling_;
  ParamId bias_;
  Slabs outputs_;
  SlabSum bias_sum_;
  Activation convolved_;  // before pooling; in backward its gradient
  Activation pooled_gradient_;
};

// Dense layers with LeakyReLU and dropout, one without them, and the loss of the values:
// (B, ...) -> losses of the context.
class CosmoFlowHead final : public Layer {
 public:
  // Declares "dense.N.weight" and "dense.N.bias", Glorot-initialised; the weights are decayed.
  CosmoFlowHead(Blueprint& blueprint, const CosmoFlowOptions& options, const ValueLossChoice& loss);

  [[nodiscard]] const HeadInfo* head() const override { return &info_; }
  [[nodiscard]] double forward_flops() const override;
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;

 private:
  struct Dense {
    Linear linear;
    std::uint64_t site;  // of dropout
    Activation output;  // (B, outputs): after LeakyReLU and dropout; of the last layer, predictions
  };
  void drop(const Context& context, const Dense& layer, const Tensor& values) const;

  // x as (B, everything else), of whole samples.
  [[nodiscard]] Tensor whole(const Context& context, const Tensor& x) const;

  HeadInfo info_;
  float slope_, dropout_;
  double ranks_;  // that share a sample, and then all compute the same here
  SampleGather gather_;
  Activation whole_{}, whole_gradient_{};  // if x is cut in space
  ValueLoss loss_;
  std::vector<Dense> layers_;
  std::vector<Activation> gradients_;  // of each layer's output but the last's
};

}  // namespace trireme
