// SPDX-License-Identifier: Apache-2.0
// Shows the tensors of a step to its observers.
#pragma once

#include <vector>

#include "runtime/nn/model.h"
#include "runtime/nn/step_observer.h"
#include "runtime/parallel/grad_reducer.h"

namespace trireme {

struct ObserverOptions {
  std::vector<StepObserver*> observers{};  // in addition to planted_faults()
  std::vector<int> first_layers{};         // by chunk of this rank: its first layer in the chain
};

class StepViews final : public GradientProbe {
 public:
  StepViews(const Model& model, ObserverOptions options);

  // Whether any observer wants a step (from 0), which then cannot be replayed.
  [[nodiscard]] bool wanted(std::int64_t step) const;
  // Starts that step.
  void begin_step(std::int64_t step);
  [[nodiscard]] bool on() const { return !lookers_.empty(); }
  [[nodiscard]] bool look_at(Seen what) const;
  // Starts the pass of micro-batch `micro_batch` of the global batch. `of_sources`: those of the
  // data ranks that share experts, this one's among them.
  void begin_pass(int micro_batch, std::vector<int> of_sources) {
    micro_batch_ = micro_batch;
    of_sources_ = std::move(of_sources);
  }
  void forward_begins(const Context& context);
  void backward_begins(const Context& context);
  void layer_done(Seen what, const Context& context, int index, const std::string& name,
                  const Tensor& values);
  // For this rank's slices.
  void parameters(Stream& stream, Seen what);
  void add_micro_batch(Stream& compute, int bucket, const Tensor& gradients, int source) override;

 private:
  void show(Stream& stream, const Observed& what, const Tensor& values);
  // A parameter's part of `values`, which are elements `range` of the whole arena.
  void show_parameter(Stream& stream, Seen what, ParamId id, const ParamLayout::Range& range,
                      const Tensor& values, int micro_batch);
  [[nodiscard]] int layer_of(int unit) const;

  const Model& model_;
  ObserverOptions options_;
  std::vector<StepObserver*> known_, lookers_;
  std::int64_t step_ = 0;
  int micro_batch_ = -1;
  std::vector<int> of_sources_;
};

}  // namespace trireme
