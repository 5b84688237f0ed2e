// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "models/spatial/slab_sum.h"
#include "models/spatial/slab_windows.h"
#include "runtime/ops/convolution/convolution.h"

namespace trireme {

struct TransposedOptions {
  std::int64_t stride = 0;  // 0: the window, so that windows do not overlap
  std::int64_t padding = 0;
  std::optional<Init> init{};  // absent: normal, He-initialised over the inputs
  bool bias = true;
};

// Transposed convolution: each input position adds a window to the outputs. Over an image (N, H, W,
// C) or a volume (N, D, H, W, C).
class TransposedConvolution {
 public:
  // Declares "<name>.weight" (inputs, a window per axis, outputs) and "<name>.bias". `output` is
  // (N, axes, outputs); the input has the axes that a convolution of `output` with this window,
  // stride and padding has, and positions that no window reaches get the bias alone.
  TransposedConvolution(Blueprint& blueprint, std::string_view name, std::int64_t inputs,
                        const Shape& output, std::int64_t window,
                        const TransposedOptions& options = {});

  [[nodiscard]] const Shape& output_shape() const { return output_; }
  void forward(const Context& context, const Tensor& y, const Tensor& x) const;
  // Accumulates and reports the parameter gradients. dx may be x.
  void backward(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x) const;

 private:
  Shape output_;
  ops::ConvolutionOptions options_;
  ParamId weight_, bias_;
  std::optional<SlabWindows> windows_;  // of its input, over the positions of its output
  std::optional<SlabSum> weight_sum_, bias_sum_;
  Activation workspace_;
};

}  // namespace trireme
