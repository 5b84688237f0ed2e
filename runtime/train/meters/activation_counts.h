// SPDX-License-Identifier: Apache-2.0
// How what the layers of a model hand on is spread, in the first micro-batch of some steps: counted
// as it is made, for its memory is soon other layers'. Each value is counted once, on every layout.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/process_mesh.h"
#include "runtime/nn/step_observer.h"
#include "runtime/telemetry/snapshots.h"

namespace trireme {

class ActivationCounts final : public StepObserver {
 public:
  // Of the chain.
  struct Layer {
    std::string name{};
    std::int64_t whole = 0;  // elements that it hands on of a micro-batch; 0: a head
    std::int64_t held = 0;   // of them by a rank of a tensor group: all, or an equal part
  };
  // `layers` are equal on all ranks. Counts in every `every`-th step. Device and mesh must outlive
  // this, which holds memory for a piece of a tensor.
  ActivationCounts(Device& device, const ProcessMesh& mesh, std::vector<Layer> layers,
                   std::int64_t every);

  [[nodiscard]] bool wants(std::int64_t step) const override;
  [[nodiscard]] bool looks_at(Seen what) const override { return what == Seen::activation; }
  // Blocks the host.
  void see(Stream& stream, const Observed& what, const Tensor& values) override;

  // "activations/NAME" of what was seen since the last call. Rank 0's are whole. Collective; blocks
  // the host.
  [[nodiscard]] std::vector<TensorHistogram> take();

 private:
  Device& device_;
  const ProcessMesh& mesh_;
  std::vector<Layer> layers_;
  std::int64_t every_;
  Buffer piece_;
  std::vector<float> floats_;  // of a piece
  std::vector<double> bins_;   // SizeBins::count of every layer
};

}  // namespace trireme
