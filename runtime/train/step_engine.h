// SPDX-License-Identifier: Apache-2.0
// One training step, enqueued from start to end: micro-batches forward and backward, gradients
// reduced meanwhile, clip, update. What the step measured is read while the next one runs.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/nn/batch_source.h"
#include "runtime/nn/model.h"
#include "runtime/optim/lr_schedule.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/grad_reducer.h"
#include "runtime/train/loss_totals.h"
#include "runtime/train/streams.h"

namespace trireme {

struct StepOptions {
  std::uint64_t seed = 0;
  int local_micro_batches = 1;   // of this rank
  int global_micro_batches = 1;  // of the whole global batch
  float clip_norm = 0;
  float label_smoothing = 0;
  ReducerMode reducer = ReducerMode::overlapped;
  std::int64_t bucket_bytes = 4 << 20;
  OptimizerOptions optimizer;
  LrSchedule schedule;
  std::function<void(Stream&)>
      after_update{};  // enqueues what follows each update (weight averages); may be empty
};

struct StepReport {
  std::int64_t step = 0;
  double loss = 0;       // mean over the targets of the global batch
  double grad_norm = 0;  // before clipping
  double learning_rate = 0;
  double step_ms = 0;  // from the first to the last of the step's work
  double forward_ms = 0, backward_ms = 0, optimizer_ms = 0, data_wait_ms = 0, exposed_comm_ms = 0;
};

class StepEngine {
 public:
  // All references must outlive the engine. `group` is the data-parallel group.
  StepEngine(Device& device, Model& model, Communicator& group, Streams& streams,
             const StepOptions& options);

  // Enqueues step `step` (from 0); at most one earlier step may be unread.
  void run(std::int64_t step, BatchSource& source);
  // Blocks until step `step`, the last or the last but one that was run, is done.
  [[nodiscard]] StepReport read(std::int64_t step);
  [[nodiscard]] std::int64_t targets_per_step() const;
  [[nodiscard]] const Optimizer& optimizer() const { return optimizer_; }

 private:
  // What a step leaves to be read while the next one runs; steps alternate between two.
  struct Slot {
    explicit Slot(Device& device, int micro_batches);
    LossTotals totals;
    Buffer norm_host, rng, rng_host;
    std::unique_ptr<Event> start, updated;
    std::vector<std::unique_ptr<Event>> forward_begin, backward_begin, backward_end;
    std::unique_ptr<Event> reduce_begin, reduce_end;
    double data_wait_ms = 0;
  };
  void run_micro_batch(Slot& slot, int index, const Batch& batch);
  [[nodiscard]] Slot& slot_of(std::int64_t step) {
    return *slots_[static_cast<std::size_t>(step % 2)];
  }

  Device& device_;
  Model& model_;
  Communicator& group_;
  Streams& streams_;
  StepOptions options_;
  GradReducer reducer_;
  Optimizer optimizer_;
  std::array<std::unique_ptr<Slot>, 2> slots_;
};

}  // namespace trireme
