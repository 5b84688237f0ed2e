// SPDX-License-Identifier: Apache-2.0
// Histograms of layer outputs, in the first micro-batch of some steps: counted when produced,
// because their memory is soon reused. Each value is counted once, in every layout.
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
  // A layer of the chain.
  struct Layer {
    std::string name{};
    std::int64_t whole = 0;  // output elements per micro-batch; 0: a head
    std::int64_t held = 0;   // of these on a rank of a tensor group: all, or an equal part
  };
  // `layers` are equal on all ranks. Counts in every `every`-th step. Device and mesh must outlive
  // this, which has memory for a piece of a tensor.
  ActivationCounts(Device& device, const ProcessMesh& mesh, std::vector<Layer> layers,
                   std::int64_t every);

  [[nodiscard]] bool wants(std::int64_t step) const override;
  [[nodiscard]] bool looks_at(Seen what) const override { return what == Seen::activation; }
  // Blocks the host.
  void see(Stream& stream, const Observed& what, const Tensor& values) override;

  // "activations/NAME" since the last call. Complete on rank 0. Collective; blocks the host.
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
