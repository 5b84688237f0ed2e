// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "models/heads/head_loss.h"
#include "models/layers/linear_layer.h"
#include "models/spatial/field_input.h"
#include "models/spatial/sample_gather.h"

namespace trireme {

// Glorot & Bengio, 2010; Keras' default.
[[nodiscard]] Init glorot(double fan_in, double fan_out);

struct DenseHeadOptions {
  std::vector<std::int64_t> dense{};  // widths of the layers but the last
  double dropout = 0, leaky_slope = 0;
  Shape input{};  // of the batch, if no layer is before the head
};

// Dense layers with LeakyReLU and dropout, one without them, and the loss of the head:
// (B, ...) -> losses of the context.
class DenseHead final : public Layer {
 public:
  // Declares "dense.N.weight" and "dense.N.bias", Glorot-initialised; the weights are decayed.
  DenseHead(Blueprint& blueprint, const DenseHeadOptions& options, const HeadChoice& head);

  [[nodiscard]] const HeadInfo* head() const override { return &info_; }
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
  SampleGather gather_;
  Activation whole_{}, whole_gradient_{};  // if x is in slabs
  std::optional<FieldInput> input_{};      // of the batch
  HeadLoss loss_;
  std::vector<Dense> layers_;
  std::vector<Activation> gradients_;  // of each layer's output but the last's
};

}  // namespace trireme
