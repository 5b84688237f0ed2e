// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "models/layers/slab_sum.h"
#include "models/layers/slab_windows.h"
#include "runtime/ops/convolution/convolution.h"

namespace trireme {

// Transposed convolution with bias whose window equals its stride: each input position becomes a
// window of outputs, so nothing overlaps. Over an image (N, H, W, C) or a volume (N, D, H, W, C).
class TransposedConvolution {
 public:
  // Declares "<name>.weight" (inputs, a window per axis, outputs), He-initialised over its inputs,
  // and "<name>.bias". `output` is (N, axes, outputs); its axes divided by `window` and rounded
  // down are those of the input, and positions that no window reaches get the bias alone.
  TransposedConvolution(Blueprint& blueprint, std::string_view name, std::int64_t inputs,
                        const Shape& output, std::int64_t window);

  void forward(const Context& context, const Tensor& y, const Tensor& x) const;
  // Accumulates and reports the parameter gradients.
  void backward(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x) const;
  [[nodiscard]] double forward_flops() const { return flops_; }

 private:
  ops::ConvolutionOptions options_;
  double flops_;
  ParamId weight_, bias_;
  std::optional<SlabWindows> windows_;  // of its input, over the positions of its output
  std::optional<SlabSum> weight_sum_, bias_sum_;
  Activation workspace_;
};

}  // namespace trireme
