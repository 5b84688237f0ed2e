// SPDX-License-Identifier: Apache-2.0
// Runs a stage's list of actions: computations on the compute stream, transfers on their channels,
// events in between. The host only enqueues.
#pragma once

#include <memory>
#include <vector>

#include "runtime/nn/model.h"
#include "runtime/parallel/pipeline_links.h"

namespace trireme {

// What the runner asks its owner to enqueue.
class StageWork {
 public:
  virtual ~StageWork() = default;
  // The context of a micro-batch of this rank (from 0), in its slot.
  [[nodiscard]] virtual Context context(int chunk, int micro_batch) = 0;
  // What must be there before a computation and is not part of its time: its batch.
  virtual void prepare(const Action& /*action*/) {}
  virtual void compute(const Action& action) = 0;
};

// Where a step's time went on this stage, in milliseconds.
struct StageTimes {
  double forward = 0, backward = 0, backward_weight = 0;
  double bubble = 0;  // the compute stream waited for a neighbour
};

class PipelineRunner {
 public:
  // Collective over `pipeline`. The references must outlive the runner.
  PipelineRunner(Device& device, Model& model, Communicator& pipeline, Stream& compute,
                 const ScheduleShape& shape);

  // Enqueues one step of so many micro-batches, those of the shape at most and the same number on
  // all stages. Times are kept for two steps, by the parity of `step`.
  void run(std::int64_t step, int micro_batches, StageWork& work);
  // Of a step that was run.
  [[nodiscard]] int micro_batches(std::int64_t step) const {
    return plans_[step % 2].micro_batches;
  }
  // Of a step whose work is done.
  [[nodiscard]] StageTimes times(std::int64_t step) const;
  // The same by chunk.
  [[nodiscard]] StageTimes times(std::int64_t step, int chunk) const;
  // From where the first computation had its input to the end of the last.
  [[nodiscard]] double span_ms(std::int64_t step) const;
  [[nodiscard]] const ScheduleShape& shape() const { return shape_; }
  [[nodiscard]] int stage() const { return stage_; }
  // Forward only, through all chunks, of one micro-batch.
  void forward_only(int micro_batch, StageWork& work);
  void synchronize() const { links_.synchronize(); }

 private:
  // Marks in the two streams' order what one slot of a chunk goes through.
  struct SlotEvents {
    std::unique_ptr<Event> freed;            // compute: last use over
    std::unique_ptr<Event> input, gradient;  // received
    std::unique_ptr<Event> output, dinput;   // compute: ready to send
    std::unique_ptr<Event> sent;             // the input's gradient has left
  };
  struct ActionTimes {
    std::unique_ptr<Event> begin, ready, end;  // ready: what it waited for is there
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
