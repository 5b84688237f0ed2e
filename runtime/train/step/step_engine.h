// SPDX-License-Identifier: Apache-2.0
// One training step, enqueued from start to end: the actions of the pipeline schedule, overlapped
// gradient reduction, clipping, update, parameter gathering. Its measurements are read while the
// next step runs.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/config/batch_slices.h"
#include "runtime/nn/model.h"
#include "runtime/optim/gradient_scale.h"
#include "runtime/optim/lr_schedule.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/grad_reducer.h"
#include "runtime/parallel/param_gatherer.h"
#include "runtime/parallel/pipeline_runner.h"
#include "runtime/parallel/tied_gradients.h"
#include "runtime/train/meters/core_waits.h"
#include "runtime/train/step/beside_messages.h"
#include "runtime/train/step/loss_guard.h"
#include "runtime/train/step/loss_totals.h"
#include "runtime/train/step/step_batches.h"
#include "runtime/train/step/step_exchange.h"
#include "runtime/train/step/step_meter.h"
#include "runtime/train/step/step_views.h"
#include "runtime/train/step/streams.h"

namespace trireme {

// If the global batch changes between steps: micro-batches of all data ranks together.
struct StepSizes {
  // For a step, and for all earlier ones. Empty: always those of BatchOptions::slices, the maximum;
  // otherwise all ranks have equally many.
  std::function<std::int64_t(std::int64_t step)> at{}, before{};
};

// The global batch, over the mesh's sample ranks. Its data group must know its doubled ranks.
struct BatchOptions {
  BatchSlices slices = BatchSlices::even(1, 1);
  int blocks = 1;  // of each micro-batch on this rank (ContextSplit::local)
  StepSizes sizes{};
  std::int64_t targets_per_micro_batch = 1;  // of whole sequences
};

// What happens to gradients before the update (optim/gradient_transform.h).
struct GradientOptions {
  float clip_norm = 0;
  std::optional<ops::LossScaleOptions> loss_scale{};
  LossGuardOptions loss_guard{};
  // Before the norm is taken.
  std::vector<GradientTransform*> transforms{};
};

struct StepOptions {
  std::uint64_t seed = 0;
  ScheduleShape pipeline{};  // micro_batches: of this rank's pipeline
  BatchOptions batch{};
  LossOptions loss{};        // without its scales
  ReducerOptions reducer{};  // chunks are the model's
  MessageProcessors beside_messages{};
  // Layout-independent sums: exact norms, and of the reducer trees.
  bool layout_independent = false;
  GraphMode graphs = GraphMode::off;
  GradientOptions gradients{};
  OptimizerConfig optimizer{};
  std::vector<ParamSpec> chain{};  // OptimizerOptions::chain
  LrSchedule schedule{};
  std::vector<StepMeter*> meters{};
  ObserverOptions observers{};
  // On a GPU: called once before the first step, after trial passes have planned all matmuls. May
  // be empty.
  std::function<void(Stream&)> rehearsed{};
  // This rank's requests, read once a step. If empty, ranks exchange neither requests nor times.
  std::function<StepFlags()> flags{};
  std::vector<int> expert_nodes{};  // ExpertMeter::nodes
};

class StepEngine final : private StageWork, private LayerHook {
 public:
  // All references must outlive the engine. Collective over the mesh.
  StepEngine(Device& device, Model& model, const ProcessMesh& mesh, Streams& streams,
             const TensorGroup* tensor, const StepOptions& options,
             const TensorGroup* experts = nullptr, const TensorGroup* context_group = nullptr);
  ~StepEngine() override;
  StepEngine(const StepEngine&) = delete;
  StepEngine& operator=(const StepEngine&) = delete;

  // Batches in use at once, which the source must hold.
  [[nodiscard]] static int batches_held(const ScheduleShape& shape, int stage);

  // Enqueues step `step` (from 0); at most one earlier step may be unread.
  void run(std::int64_t step, BatchSource& source);
  // Records a checkpoint or an evaluation before the next step.
  void note_pause(TimePart part, double milliseconds) { pause_[part] += milliseconds; }
  // Blocks until step `step`, the last or the one before, is done.
  [[nodiscard]] StepReport read(std::int64_t step);
  // Makes all parameters that this rank holds whole (except in stage 3) and final.
  void settle();
  // For step `step`, and for all earlier ones; includes ignored targets.
  [[nodiscard]] std::int64_t targets_of(std::int64_t step) const;
  [[nodiscard]] std::int64_t targets_before(std::int64_t step) const;
  [[nodiscard]] const Optimizer& optimizer() const { return optimizer_; }
  [[nodiscard]] const LossGuard& loss_guard() const { return guard_; }
  // Null if the loss is not scaled.
  [[nodiscard]] const LossScaler* loss_scaler() const { return scaler_.get(); }
  [[nodiscard]] PipelineRunner& runner() { return runner_; }
  [[nodiscard]] ParamGatherer& gatherer() { return gatherer_; }

 private:
  // Values of a step that are read while the next one runs; steps alternate between two slots.
  struct Slot {
    Slot(Device& device, const ProcessMesh& mesh, const StepOptions& options);
    LossTotals totals;
    StepExchange exchange;
    Buffer norm_host, scale_host, guard_host, rng, rng_host;
    std::unique_ptr<Event> start, updated, reduce_begin, reduce_end;
    bool warm = false;     // used before
    bool follows = false;  // an earlier step ran
    std::unique_ptr<Graph> graph{};
    Times times{};     // waits for data and messages, pauses before the step
    CoreTimes core{};  // 0 except on a CPU
    ExpertCounts experts{};
  };
  Context context(int chunk, int micro_batch) override;
  void prepare(const Action& action) override;
  void compute(const Action& action) override;
  void before_forward(int unit, int next) override;
  void before_backward(int unit, int next) override;
  void after_forward(const Context& context, int index, const Layer& layer,
                     const Tensor& output) override;
  void after_backward(const Context& context, int index, const Layer& layer,
                      const Tensor& input_gradient) override;
  [[nodiscard]] std::vector<GradientTransform*> transforms();
  void set_size(std::int64_t step);
  void rehearse(std::int64_t step, Slot& slot);
  void rehearse_passes(std::int64_t step, Slot& slot);
  void enqueue(std::int64_t step, Slot& slot);
  void count_tokens();
  void replay(std::int64_t step, Slot& slot);
  void reduce(std::int64_t step, Slot& slot);
  void update(std::int64_t step, Slot& slot);
  [[nodiscard]] RankStep times_of(std::int64_t step, const Slot& slot) const;
  void read_loss_scale(const Slot& slot, StepReport& report) const;
  [[nodiscard]] Slot& slot_of(std::int64_t step) {
    return *slots_[static_cast<std::size_t>(step % 2)];
  }
  [[nodiscard]] Event& end_of(std::int64_t step) const {
    return *ends_[static_cast<std::size_t>(step) % ends_.size()];
  }

  [[nodiscard]] double message_wait_seconds() const;

  Device& device_;
  const ProcessMesh& mesh_;
  Model& model_;
  Streams& streams_;
  const TensorGroup *tensor_, *experts_, *context_group_;  // of Context
  std::optional<ExpertMeter> expert_meter_;                // with experts_
  StepOptions options_;
  GradReducer reducer_;
  TiedGradients ties_;
  ParamGatherer gatherer_;
  ModelGroups groups_;
  GradientNorm norm_;
  std::unique_ptr<LossScaler> scaler_;  // null: the loss is not scaled
  LossGuard guard_;
  Optimizer optimizer_;
  std::optional<TensorGroup> data_group_;  // of models with Blueprint::token_losses
  Buffer token_totals_{};                  // Context::token_totals
  bool records_ = false;                   // steps are recorded as graphs
  PipelineRunner runner_;
  StepViews views_;
  CoreWaits core_waits_;
  CoreWaitCount core_count_{};  // at the end of the last step
  Times pause_;                 // since the last step
  std::array<std::unique_ptr<Slot>, 2> slots_;
  std::array<std::unique_ptr<Event>, 3> ends_;  // step s at s % 3: there until s + 2 is read
  Slot* slot_ = nullptr;                        // of the step being enqueued
  std::int64_t targets_ = 1;                    // likewise
  int global_micro_batches_ = 1;                // likewise
  BatchSlices::Run micro_batches_{0, 1};        // this rank's part of them
  StepBatches batches_;                         // likewise
  std::vector<bool> weights_changed_;           // by chunk: no forward since the update
  std::optional<int> rehearsed_processors_;     // that matmuls leave, while a step is rehearsed
  bool began_ = false;                          // a step has run
  bool unrecordable_ = false;                   // a step could not be recorded
  bool recorded_ = false;                       // a step was recorded, and logged
  struct {
    std::int64_t step = -1;
    RankStep times{};
  } last_read_;
};

}  // namespace trireme
