// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/nn/layer.h"
#include "runtime/ops/convolution/convolution.h"

namespace trireme {

// 2-D convolution without bias (batch norm follows), NHWC.
class Convolution {
 public:
  // Declares "<name>.weight" (outputs, window, window, inputs), decayed, He-initialised over its
  // fan-out (He et al., 2015). `input` is (N, H, W, inputs). Padding keeps the extent at stride 1.
  Convolution(Blueprint& blueprint, std::string_view name, const Shape& input, std::int64_t outputs,
              std::int64_t window, std::int64_t stride);

  [[nodiscard]] const Shape& output_shape() const { return output_; }
  void forward(const Context& context, const Tensor& y, const Tensor& x) const;
  // Accumulates and reports the weight gradient. An empty dx skips the input gradient; `addend`, if
  // given, is added to dx.
  void backward(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                const Tensor& addend = {}) const;
  [[nodiscard]] double forward_flops() const;

 private:
  Shape output_;
  ops::ConvolutionOptions options_;
  double taps_;  // multiply-adds per output element
  ParamId weight_;
  Activation workspace_;
};

}  // namespace trireme
