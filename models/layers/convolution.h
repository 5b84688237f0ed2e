// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "models/spatial/slab_sum.h"
#include "models/spatial/slab_windows.h"
#include "runtime/ops/convolution/convolution.h"

namespace trireme {

struct FilterOptions {
  std::optional<Init> init{};  // absent: normal, He-initialised over the fan-out (He et al., 2015)
  bool decay = true;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  std::optional<Init> bias{};  // absent: there is none
  bool signals = false;        // (N, 1, L, C): window and stride are along L alone
};

// Convolution over an image (N, H, W, C) or a volume (N, D, H, W, C), which may be in slabs.
class Convolution {
 public:
  // Declares "<name>.weight" (outputs, a window per axis, inputs / groups) and, if wanted,
  // "<name>.bias". `input` is (N, axes, inputs). Padding keeps the extents at stride 1.
  Convolution(Blueprint& blueprint, std::string_view name, const Shape& input, std::int64_t outputs,
              std::int64_t window, std::int64_t stride, const FilterOptions& filter = {});

  [[nodiscard]] const Shape& output_shape() const { return output_; }
  void forward(const Context& context, const Tensor& y, const Tensor& x) const;
  // Accumulates and reports the parameter gradients. An empty dx skips the input gradient;
  // `addend`, if given, is added to dx. dx may be x.
  void backward(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                const Tensor& addend = {}) const;

 private:
  // The weight's gradient; finish() of its sum reports it.
  void start_weight(const Context& context, const Tensor& dy, const Tensor& x) const;

  Shape output_;
  ops::ConvolutionOptions options_;
  ParamId weight_, bias_;
  std::optional<SlabWindows> windows_;
  std::optional<SlabSum> weight_sum_, bias_sum_;
  Activation workspace_;
};

}  // namespace trireme
