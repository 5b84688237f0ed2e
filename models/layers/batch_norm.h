// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/nn/layer.h"
#include "runtime/ops/norm/batch_norm.h"

namespace trireme {

// Batch normalisation of an NHWC tensor with an optional fused ReLU. Training uses the statistics
// of the micro-batch. The running statistics are parameters of kind `statistic`: the mean over all
// micro-batches of the global batch, so they do not depend on how many ranks share it.
class BatchNorm {
 public:
  // Declares "<name>.weight", "<name>.bias", "<name>.running_mean", "<name>.running_variance"
  // (channels).
  BatchNorm(Blueprint& blueprint, std::string_view name, const Shape& input, bool relu,
            float initial_scale = 1.0F);

  void forward(const Context& context, const Tensor& y, const Tensor& x) const;
  // dx may alias dy. y is forward's output; it may be empty without ReLU.
  void backward(const Context& context, const Tensor& dx, const Tensor& dy, const Tensor& x,
                const Tensor& y) const;

 private:
  std::int64_t per_channel_;  // values behind one statistic: N * H * W
  ops::BatchNormOptions options_;
  ParamId weight_, bias_, running_mean_, running_variance_;
  Activation mean_, variance_;
};

}  // namespace trireme
