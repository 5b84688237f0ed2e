// SPDX-License-Identifier: Apache-2.0
// The gradient noise scale of a run: in some steps, the squared norms of the gradients of single
// micro-batches and of the whole batch (ops/update/noise_scale.h). Squares are summed as integers,
// so bits depend on the layout only through the gradients. A tied matrix counts
// once, with the sum of its uses' gradients, which one rank must hold.
#pragma once

#include <array>
#include <vector>

#include "runtime/comm/process_mesh.h"
#include "runtime/nn/tensor_group.h"
#include "runtime/ops/update/noise_scale.h"
#include "runtime/optim/gradient_transform.h"
#include "runtime/parallel/grad_reducer.h"
#include "runtime/train/step/step_meter.h"
#include "runtime/train/step/streams.h"

namespace trireme {

struct NoiseMeterOptions {
  std::int64_t every = 1;    // steps
  std::int64_t samples = 1;  // of a micro-batch
};

class NoiseMeter final : public StepMeter, public GradientProbe, public GradientTransform {
 public:
  // All must outlive this. Needs gradient sums as a tree, below ZeRO stage 2.
  NoiseMeter(Device& device, const ProcessMesh& mesh, const ParamStore& params, Streams& streams,
             const NoiseMeterOptions& options);

  // In steps every, 2 every, ... as reports count.
  void begin(std::int64_t step, Stream& compute) override;
  [[nodiscard]] GradientProbe* probe(std::int64_t step) override {
    return measures(step) ? this : nullptr;
  }
  void reduced(std::int64_t step, Stream& comm) override;
  void updated(std::int64_t step, Stream& compute, Stream& comm) override;
  void read(StepReport& report) override;
  void add_micro_batch(Stream& compute, int bucket, const Tensor& gradients, int source) override;
  // The estimate. Collective over the mesh.
  void apply(Stream& compute, const ParamStore& params, const GradientStep& step) override;

  // ops::NoiseState on the device: all that a checkpoint must store.
  [[nodiscard]] Tensor state() const;

 private:
  [[nodiscard]] bool measures(std::int64_t step) const { return (step + 1) % options_.every == 0; }
  // Elements of a bucket that no other rank counts.
  struct Run {
    std::int64_t first = 0, count = 0;
  };
  // A tied copy, whose gradients of a micro-batch are complete before the original's.
  struct Copy {
    int bucket = -1, original = -1;  // buckets
    Buffer gradients;
  };
  [[nodiscard]] Tensor exact(int row) const;  // 0: micro-batches, 1: the whole batch

  const ParamStore& params_;
  NoiseMeterOptions options_;
  bool counts_whole_;  // counts parameters replicated over data ranks
  TensorGroup data_, model_;
  std::vector<std::vector<Run>> runs_;  // by bucket
  std::vector<Copy> copies_;
  Buffer exact_, squares_, state_;  // (2, exact_sum_words) u64, (2) f64, NoiseState
  std::array<Buffer, 2> host_;      // copies of the state, by step % 2
};

}  // namespace trireme
