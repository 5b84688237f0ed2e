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

// y = relu(branch(x) + shortcut(x)). The branch is a sequence of convolution + batch norm units,
// with ReLU after all but the last; the shortcut is the identity, or a 1x1 convolution + batch norm
// if the shape changes. The branch's last norm also normalises and adds the shortcut and applies
// the ReLU of the sum.
class ResNetBlock final : public Layer {
 public:
  ResNetBlock(Blueprint& blueprint, std::string name, const ResNetBlockOptions& options);

  void add_limits(ModelLimits& limits) const override { limits.convolutions = true; }
  void forward(const Context& context, const Tensor& x, const Tensor& y) override;
  void backward(const Context& context, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override;

 private:
  enum class Place { inner, last, shortcut };
  struct Unit {
    Unit(Blueprint& blueprint, std::string_view name, const Shape& input, std::int64_t outputs,
         std::int64_t window, std::int64_t stride, Place place);
    Convolution convolution;
    BatchNorm norm;
    Activation convolved;              // kept: input of the norm
    std::optional<Activation> normed;  // kept: inner units only, for the next one
    Activation gradient;               // of `normed`, then (in place) that of `convolved`
  };

  std::vector<Unit> branch_;
  std::optional<Unit> shortcut_;
  Activation dx_branch_;  // if there is a shortcut
};

}  // namespace trireme
