// SPDX-License-Identifier: Apache-2.0
// What the passes of a stage take when it is built with other options than the run's: measured on
// the run's weights, with a micro-batch of the run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/nn/model.h"
#include "runtime/parallel/schedule.h"

namespace trireme {

// Milliseconds of one micro-batch, all chunks of a rank together.
struct PassTimes {
  double forward = 0;
  double backward = 0;         // of a backward in two parts the first
  double backward_weight = 0;  // the second

  [[nodiscard]] double all() const { return forward + backward + backward_weight; }
};
// The lower quartile of each: what else the machine does makes passes slower, never faster. Zeros
// of none.
[[nodiscard]] PassTimes usual(std::span<const PassTimes> steps);

// What a stage had last. Views: all must stay valid, and unchanged, as long as a probe.
struct LastPass {
  Batch batch;
  std::vector<Tensor> inputs{}, gradients{};  // by chunk, from its neighbours; empty at the ends
};
[[nodiscard]] LastPass last_pass_of(const Model& model, Stream& compute, const Batch& batch,
                                    int micro_batch);
// The first `samples` of each micro-batch.
[[nodiscard]] Batch first_samples(const Batch& batch, std::int64_t samples);

class StageProbe {
 public:
  // `model`: with the weights of the run and the slots that the schedule asks of the stage. `last`:
  // as large as the model's micro-batch, or larger. The references must outlive the probe.
  StageProbe(std::unique_ptr<Model> model, const ScheduleShape& shape, int stage, Stream& compute,
             const TensorGroup& tensor, const LastPass& last);

  // The stage's computations in the order of the schedule, without messages; the first time finds
  // the algorithms. Adds to the gradients, and to what layers keep statistics of. Blocks the host;
  // collective over the tensor group.
  PassTimes step();

 private:
  struct Computation {
    Action action;
    std::unique_ptr<Event> begin, end;
  };
  [[nodiscard]] Context context(const Action& action);
  void receive(const Action& action);
  void compute(const Action& action);

  std::unique_ptr<Model> model_;
  Stream& compute_;
  const TensorGroup& tensor_;
  LastPass last_;
  Buffer rng_;
  std::vector<Computation> computations_;
  std::vector<bool> weights_changed_;  // by chunk: no forward in this step
  int micro_batches_;
};

}  // namespace trireme
