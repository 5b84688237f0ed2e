// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "runtime/nn/batch.h"
#include "runtime/nn/model.h"
#include "runtime/parallel/pipeline_runner.h"
#include "runtime/telemetry/quality.h"
#include "runtime/train/meters/scores.h"
#include "runtime/train/step/loss_totals.h"
#include "runtime/train/step/streams.h"

namespace trireme {

// The share of the validation set for each data-parallel rank.
struct EvaluationPlan {
  std::int64_t local_batches =
      0;  // micro-batches this rank runs; padding rows carry ignored targets
  // Micro-batches of each source in the whole pass, source after source.
  std::vector<std::int64_t> parts;
};

// Means over counted targets; of pixels over samples with any, of each its mean.
struct EvaluationPart {
  std::string source{};  // if there are several; the caller names it
  double loss = 0;       // nats, or of values their loss
  // What the head writes to Context::correct: accuracy, or of values the mean absolute error.
  double correct = 0;
  // Of tokens and labels the fraction among the five most likely classes, of pixels the mean IoU,
  // of maps of values VRMSE.
  double second = 0;
  double third = 0;  // of pixels the mean dice; NaN: no sample has one
  double targets = 0;
  Scores scores{};  // of models that have them (meters/predictions.h)
};
[[nodiscard]] EvaluationPart means_of(const LossTotals::Values& sums, Scores scores = {});
struct EvaluationResult : EvaluationPart {  // over all parts
  std::vector<EvaluationPart> parts{};
};

// The qualities that a model with such targets reports. Not those of tokens, whose loss says more.
[[nodiscard]] inline Qualities qualities_of(const TargetSpec& targets,
                                            const EvaluationPart& result) {
  const TargetKind kind = targets.kind;
  if (kind == TargetKind::tokens) return {};
  if (targets.is_value_map()) return {.mae = result.correct, .vrmse = result.second};
  const Scores& scores = result.scores;
  if (targets.is_multi_label())
    return {.accuracy = scores.accuracy,
            .f1 = scores.f1,
            .f1_micro = scores.f1_micro,
            .auc = scores.auc};
  if (kind == TargetKind::values) return {.r2 = scores.r2, .mae = result.correct};
  if (kind == TargetKind::label || kind == TargetKind::token_classes)
    return {.accuracy = result.correct, .f1 = scores.f1, .auc = scores.auc};
  Qualities pixels{.accuracy = result.correct, .mean_iou = result.second};
  if (!std::isnan(result.third)) pixels.mean_dice = result.third;
  return pixels;
}

// Takes what the head computes, micro-batch after micro-batch, where the head is.
class LogitsSink {
 public:
  virtual ~LogitsSink() = default;
  // (targets, classes or more) on the device.
  virtual void take(Stream& stream, const Tensor& logits) = 0;

 protected:
  LogitsSink() = default;
  LogitsSink(const LogitsSink&) = default;
  LogitsSink& operator=(const LogitsSink&) = default;
};

// The environment of an evaluation; all must outlive the call.
struct EvaluationSetup {
  Device& device;
  Model& model;
  const ProcessMesh& mesh;
  PipelineRunner& runner;
  Streams& streams;
  const TensorGroup *tensor = nullptr, *experts = nullptr, *context_group = nullptr;  // of Context
  TargetSpec targets{};        // of the model
  LogitsSink* sink = nullptr;  // instead of ranks and overlaps; null on ranks without the head
  bool absent_counts = false;  // ops::MeanIouOptions
};

// Forward passes without dropout, augmentation or label smoothing, with running statistics.
// Collective over all ranks; batch k of sample rank r of D is micro-batch k * D + r of the set.
[[nodiscard]] EvaluationResult evaluate(const EvaluationSetup& setup, BatchSource& source,
                                        const EvaluationPlan& plan);

// Ranks of a micro-batch's targets among the classes (ops/loss/target_rank.h), from the logits of a
// forward pass outside training. Integers, equal in every layout.
class TargetRanks {
 public:
  // `model` holds the head, of tokens or labels, and must outlive this.
  TargetRanks(Device& device, const Model& model);

  // (targets of the micro-batch) f32, on every tensor rank; until the next call. Collective over
  // these.
  [[nodiscard]] Tensor of(const Context& context) const;

 private:
  const HeadInfo& head_;
  Buffer values_, ranks_;
};

// How well the maps of a micro-batch's samples are predicted, likewise: how far pixels overlap the
// true ones (ops/loss/mean_iou.h), or the errors of values (ops/loss/vrmse.h).
class MapScores {
 public:
  MapScores(const EvaluationSetup& setup);

  // (LossSums::count, samples of the micro-batch) f32, of values (1, samples), until the next call.
  [[nodiscard]] Tensor of(const Context& context);

 private:
  Device& device_;
  const HeadInfo& head_;
  bool absent_counts_;
  Buffer scores_{};  // made by the first micro-batch; all have the same number of samples
};

}  // namespace trireme
