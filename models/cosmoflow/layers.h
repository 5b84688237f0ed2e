// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "models/cosmoflow/cosmoflow.h"
#include "models/layers/convolution.h"
#include "models/layers/max_pooling.h"
#include "models/spatial/field_input.h"

namespace trireme {

// 3x3x3 convolution with bias, max pooling by 2, LeakyReLU: (B, D, H, W, C) -> (B, D/2, H/2, W/2,
// C'). The reference pools after the LeakyReLU. Both are increasing, so the results are equal, but
// only an eighth of the values gets a bias and an activation, and forward keeps one byte for each
// value of the convolution instead of the value.
class CosmoFlowBlock final : public Layer {
 public:
  // Declares "convolution.weight" (filters, 3, 3, 3, C), Glorot-initialised and decayed, and
  // "convolution.bias". Block 0 takes the batch's inputs.
  CosmoFlowBlock(Blueprint& blueprint, const std::string& name, const CosmoFlowOptions& options,
                 std::int64_t index);

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

}  // namespace trireme
