// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "models/layers/batch_norm.h"
#include "models/layers/convolution.h"
#include "models/resnet/resnet.h"

namespace trireme {

struct ResNetBlockOptions {
  bool bottleneck = false;
  std::int64_t width = 64;
  std::int64_t stride = 1;
  [[nodiscard]] std::int64_t outputs() const { return bottleneck ? 4 * width : width; }
};

// y = relu(branch(x) + shortcut(x)). The branch is a row of convolution + batch norm units, ReLU
// after all but the last; the shortcut is the identity or a 1x1 convolution + batch norm where the
// shape changes.
class ResNetBlock final : public Layer {
 public:
  ResNetBlock(Blueprint& blueprint, std::string name, const ResNetBlockOptions& options);

  [[nodiscard]] double forward_flops() const override;
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;

 private:
  struct Unit {
    Unit(Blueprint& blueprint, std::string_view name, const Shape& input, std::int64_t outputs,
         std::int64_t window, std::int64_t stride, bool relu, float initial_scale);
    Convolution convolution;
    BatchNorm norm;
    Activation convolved;  // kept: input of the norm
    Activation normed;     // kept where the next unit reads it, else scratch
    Activation gradient;   // of `normed`, turned in place into that of `convolved`
  };

  std::vector<Unit> branch_;
  std::optional<Unit> shortcut_;
  Activation dx_shortcut_;
};

}  // namespace trireme
