// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/evaluation.h"

#include <optional>

#include "runtime/comm/watchdog/step_watch.h"
#include "runtime/ops/loss/mean_iou.h"
#include "runtime/ops/loss/target_rank.h"
#include "runtime/ops/loss/vrmse.h"
#include "runtime/train/meters/predictions.h"

namespace trireme {
namespace {

// Targets (B, H, W), (B, H, W, K), ...
bool is_map(const Batch& batch) {
  return batch.targets.shape.rank() > 2;
}

class EvaluationWork final : public StageWork {
 public:
  EvaluationWork(const EvaluationSetup& setup, LossTotals& totals, Predictions* predictions)
      : setup_(setup), totals_(totals), predictions_(predictions) {
    if (!setup.model.has_head() || setup.sink != nullptr) return;
    const TargetKind kind = setup.model.head().kind;
    if (!setup.model.head().whole) return;
    if (kind == TargetKind::tokens || kind == TargetKind::label)
      ranks_.emplace(setup.device, setup.model);
    else
      scores_.emplace(setup);
  }

  void next(BatchSource& source) {
    batch_ = source.next(*setup_.streams.copy, *setup_.streams.compute);
  }
  Context context(int chunk, int micro_batch) override {
    Context context = setup_.model.context(*setup_.streams.compute, batch_, /*training=*/false,
                                           chunk, micro_batch);
    context.tensor = setup_.tensor;
    context.experts = setup_.experts;
    context.context_group = setup_.context_group;
    return context;
  }
  void compute(const Action& action) override {
    const Context here = context(action.chunk, action.micro_batch);
    setup_.model.forward(here);
    const int blocks = setup_.model.blocks();
    for (int block = 0; !here.losses.empty() && block < blocks; ++block)
      take(setup_.model.block(here, block), action.micro_batch * blocks + block);
  }

 private:
  void take(const Context& here, int index) {
    const bool maps = scores_ && is_map(batch_);
    if (!maps || setup_.model.head().kind == TargetKind::values) totals_.add(here, index);
    if (setup_.sink != nullptr) setup_.sink->take(here.stream, here(setup_.model.head().logits));
    if (predictions_ != nullptr) predictions_->add(here, index);
    if (ranks_) totals_.add_ranks(here.stream, index, ranks_->of(here));
    if (maps) totals_.add_scores(here.stream, index, scores_->of(here));
  }

  const EvaluationSetup& setup_;
  LossTotals& totals_;
  Predictions* predictions_;  // null: none are collected
  std::optional<TargetRanks> ranks_;
  std::optional<MapScores> scores_;
  Batch batch_;
};

}  // namespace

EvaluationPart means_of(const LossTotals::Values& sums, Scores scores) {
  return {.loss = sums.loss / sums.divisor(),
          .correct = sums.correct / sums.divisor(),
          .second = sums.second / sums.divisor(),
          .third = sums.third / (sums.samples > 0 ? sums.thirds : sums.divisor()),
          .targets = sums.targets,
          .scores = scores};
}

EvaluationResult evaluate(const EvaluationSetup& setup, BatchSource& source,
                          const EvaluationPlan& plan) {
  LossTotals totals(setup.device, setup.mesh, plan.local_batches, setup.mesh.shape().sample_ranks(),
                    setup.model.blocks());
  totals.reset(*setup.streams.compute);
  std::optional<Predictions> predictions;
  if (setup.sink == nullptr && setup.model.blocks() == 1 && has_scores(setup.targets))
    predictions.emplace(setup.device, setup.mesh, setup.model, setup.targets, plan.local_batches);
  EvaluationWork work(setup, totals, predictions ? &*predictions : nullptr);
  for (int i = 0; i < static_cast<int>(plan.local_batches); ++i) {
    set_activity("waiting for data to evaluate", 0, i);
    work.next(source);
    setup.runner.forward_only(i, work);
  }
  totals.publish(*setup.streams.compute, *setup.streams.comm);
  set_activity("waiting for the end of the evaluation");
  totals.wait();
  if (predictions) predictions->gather();
  const auto scores = [&](std::int64_t from, std::int64_t end) {
    return predictions ? predictions->scores(from, end) : Scores{};
  };
  EvaluationResult result;
  std::int64_t first = 0;
  for (const std::int64_t micro_batches : plan.parts) {
    const std::int64_t end = first + micro_batches;
    result.parts.push_back(means_of(totals.read(first, end), scores(first, end)));
    first = end;
  }
  const LossTotals::Values sums = totals.read();
  setup.runner.synchronize();
  static_cast<EvaluationPart&>(result) = means_of(sums, scores(0, first));
  return result;
}

namespace {

std::size_t bytes_of(const HeadInfo& head) {
  return static_cast<std::size_t>(head.targets) * sizeof(float);
}

}  // namespace

TargetRanks::TargetRanks(Device& device, const Model& model)
    : head_(model.head()),
      values_(device, bytes_of(head_), MemoryKind::device),
      ranks_(device, bytes_of(head_), MemoryKind::device) {}

Tensor TargetRanks::of(const Context& context) const {
  const std::int64_t rows = head_.targets;
  const Tensor logits = context(head_.logits), targets = context.batch.targets.reshaped({rows});
  const Tensor values = values_.view(DType::f32, Shape{rows});
  const Tensor ranks = ranks_.view(DType::f32, Shape{rows});
  // (rows, classes) or, of a split vocabulary, (local blocks, rows, W).
  const std::int64_t width = logits.shape.back(), local = logits.count() / (rows * width);
  const bool split = logits.shape.rank() == 3 && context.tensor != nullptr;
  const std::int64_t first = split ? context.tensor->rank() * local : 0;
  const auto each_block = [&](auto&& op) {
    for (std::int64_t b = 0; b < local; ++b)
      op(logits.range(b * rows * width, rows * width).reshaped({rows, width}),
         ops::ClassBlock{head_.classes, (first + b) * width}, /*accumulate=*/b > 0);
  };
  each_block([&](const Tensor& block, const ops::ClassBlock& classes, bool accumulate) {
    ops::target_logits(context.stream, values, block, targets, classes, accumulate);
  });
  if (split) context.tensor->all_reduce(context.stream, values, ReduceOp::max);
  each_block([&](const Tensor& block, const ops::ClassBlock& classes, bool accumulate) {
    ops::target_ranks(context.stream, ranks, values, block, targets, classes, accumulate);
  });
  if (split) context.tensor->all_reduce(context.stream, ranks);
  return ranks;
}

MapScores::MapScores(const EvaluationSetup& setup)
    : device_(setup.device), head_(setup.model.head()), absent_counts_(setup.absent_counts) {}

Tensor MapScores::of(const Context& context) {
  const Tensor& targets = context.batch.targets;
  const bool values = head_.kind == TargetKind::values;
  const std::int64_t samples = targets.shape[0], rows = values ? 1 : ops::LossSums::count;
  if (scores_.data() == nullptr)
    scores_ = Buffer(device_, static_cast<std::size_t>(rows * samples) * sizeof(float),
                     MemoryKind::device);
  const Tensor scores = scores_.view(DType::f32, Shape{rows, samples});
  const Tensor outputs = context(head_.logits);
  if (values) {
    ops::vrmse(context.stream, scores, outputs.reshaped({samples, targets.count() / samples}),
               targets, targets.shape.back());
  } else {
    ops::mean_iou(context.stream, scores, context.losses, context.correct, outputs,
                  targets.reshaped({head_.targets}), {head_.classes, absent_counts_});
  }
  return scores;
}

}  // namespace trireme
