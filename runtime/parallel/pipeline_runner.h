// SPDX-License-Identifier: Apache-2.0
// Runs a stage's action list: computations on the compute stream, transfers on their channels, with
// events in between. The host only enqueues.
#pragma once

#include <memory>
#include <vector>

#include "runtime/nn/model.h"
#include "runtime/parallel/pipeline_links.h"

namespace trireme {

// Callbacks of the runner.
class StageWork {
 public:
  virtual ~StageWork() = default;
  // The context of this rank's micro-batch (from 0), in its slot.
  [[nodiscard]] virtual Context context(int chunk, int micro_batch) = 0;
  // Fetches what a computation needs (its batch) and is not part of its time.
  virtual void prepare(const Action& /*action*/) {}
  virtual void compute(const Action& action) = 0;
};

// Times of a step on this stage, in milliseconds.
struct StageTimes {
  double forward = 0, backward = 0, backward_weight = 0;
  double bubble = 0;  // the compute stream waited for a neighbour stage
};

class PipelineRunner {
 public:
  // Collective over `pipeline`. The references must outlive the runner.
  PipelineRunner(Device& device, Model& model, Communicator& pipeline, Stream& compute,
                 const ScheduleShape& shape);

  // Enqueues one step of `micro_batches`, at most those of the shape and equal on all stages. Keeps
  // times for two steps, by the parity of `step`.
  void run(std::int64_t step, int micro_batches, StageWork& work);
  // For a step that was run.
  [[nodiscard]] int micro_batches(std::int64_t step) const {
    return plans_[step % 2].micro_batches;
  }
  // For a finished step.
  [[nodiscard]] StageTimes times(std::int64_t step) const;
  // The same per chunk.
  [[nodiscard]] StageTimes times(std::int64_t step, int chunk) const;
  // From when the first computation had its input to the end of the last.
  [[nodiscard]] double span_ms(std::int64_t step) const;
  [[nodiscard]] const ScheduleShape& shape() const { return shape_; }
  [[nodiscard]] int stage() const { return stage_; }
  // Forward only, through all chunks, for one micro-batch.
  void forward_only(int micro_batch, StageWork& work);
  void synchronize() const { links_.synchronize(); }

 private:
  // Events of the two streams for one slot of a chunk.
  struct SlotEvents {
    std::unique_ptr<Event> freed;            // compute: last use is over
    std::unique_ptr<Event> input, gradient;  // received
    std::unique_ptr<Event> output, dinput;   // compute: ready to send
    std::unique_ptr<Event> sent;             // the input's gradient was sent
  };
  struct ActionTimes {
    std::unique_ptr<Event> begin, ready, end;  // ready: its inputs have arrived
  };
  struct Plan {
    int micro_batches = 0;
    std::vector<Action> actions{};
    std::size_t computations = 0;
  };
  [[nodiscard]] Plan plan_of(int micro_batches) const;
  [[nodiscard]] SlotEvents& slot(const Action& action);
  [[nodiscard]] bool receives(const Action& action) const;
  void compute(const Action& action, ActionTimes& times, StageWork& work);
  void transfer(const Action& action, StageWork& work);

  Model& model_;
  Stream& compute_;
  ScheduleShape shape_;
  int stage_;
  Plan plans_[2];  // by the parity of the step
  PipelineLinks links_;
  std::vector<std::vector<SlotEvents>> slots_;  // [chunk][slot]
  std::vector<ActionTimes> times_[2];           // of the computations, in order
};

}  // namespace trireme
