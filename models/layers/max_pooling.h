// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "models/spatial/slab_windows.h"
#include "runtime/ops/convolution/pooling.h"

namespace trireme {

// Max pooling over windows that do not overlap, of an image or a volume that may be in slabs.
class MaxPooling {
 public:
  // `input`: (N, axes, C).
  MaxPooling(Blueprint& blueprint, const Shape& input, std::int64_t window);

  [[nodiscard]] const Shape& output_shape() const { return output_; }
  void forward(const Context& context, const Tensor& y, const Tensor& x) const;
  // dx is overwritten.
  void backward(const Context& context, const Tensor& dx, const Tensor& dy) const;

 private:
  ops::PoolingOptions options_;
  Shape output_;
  SlabWindows windows_;
  Activation index_;  // of the maxima
  std::optional<BoxExchange> of_index_{};
};

}  // namespace trireme
