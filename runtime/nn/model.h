// SPDX-License-Identifier: Apache-2.0
// A model is a chain of layers with its parameters and the memory of one micro-batch in flight.
#pragma once

#include <memory>
#include <vector>

#include "runtime/nn/layer.h"

namespace trireme {

// What the loss head leaves: targets of one micro-batch, and where to find the logits (for
// generation).
struct HeadInfo {
  std::int64_t targets = 0;  // per micro-batch: B * T tokens or B labels
  std::int64_t classes = 0;
  Activation logits;  // (targets, padded classes)
};

class Model {
 public:
  // Builds the chain from the declarations that `declare` makes on the blueprint, then allocates.
  // Nothing is allocated before everything is declared. The device must outlive the model.
  struct Declaration {
    std::vector<std::unique_ptr<Layer>> layers;
    HeadInfo head;
  };
  template <typename Declare>
  Model(Device& device, DType compute, std::int64_t micro_batch, bool training, Declare&& declare)
      : device_(device) {
    Blueprint blueprint(params_, device.type(), compute, micro_batch);
    adopt(blueprint, declare(blueprint), training);
  }

  void forward(const Context& context);
  void backward(const Context& context);

  // A context of this model's memory; the caller fills in the step's values.
  [[nodiscard]] Context context(Stream& stream, const Batch& batch, bool training) const;

  [[nodiscard]] ParamStore& params() { return params_; }
  [[nodiscard]] const ParamStore& params() const { return params_; }
  [[nodiscard]] const HeadInfo& head() const { return head_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Layer>>& layers() const { return layers_; }
  // For one micro-batch.
  [[nodiscard]] double forward_flops() const;
  [[nodiscard]] std::size_t activation_bytes() const {
    return kept_.bytes() + scratch_.bytes() + workspace_.bytes();
  }

 private:
  struct Boundary {
    Activation value;     // output of layer i, kept
    Activation gradient;  // its gradient, scratch
  };
  void adopt(Blueprint& blueprint, Declaration declaration, bool training);
  void lay_out_boundaries(Blueprint& blueprint, bool training);

  Device& device_;
  ParamStore params_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<Boundary> boundaries_;  // between layer i and i + 1
  HeadInfo head_;
  Arena kept_, scratch_, workspace_;
  Activation losses_, hits_;
};

}  // namespace trireme
