// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/nn/batch.h"
#include "runtime/nn/model.h"
#include "runtime/parallel/pipeline_runner.h"
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

// Means over counted targets.
struct EvaluationResult {
  double loss = 0;  // nats, over all parts
  double accuracy = 0;
  double top5 = 0;  // fraction of targets among the five most likely classes
  double targets = 0;
  struct Part {
    std::string source{};  // if there are several; the caller names it
    double loss = 0, accuracy = 0, top5 = 0, targets = 0;
  };
  std::vector<Part> parts{};
};

// The environment of an evaluation; all must outlive the call.
struct EvaluationSetup {
  Device& device;
  Model& model;
  const ProcessMesh& mesh;
  PipelineRunner& runner;
  Streams& streams;
  const TensorGroup* tensor = nullptr;
};

// Forward passes without dropout, augmentation or label smoothing, with running statistics.
// Collective over all ranks; batch k of data-parallel rank r is micro-batch k * D + r of the set.
[[nodiscard]] EvaluationResult evaluate(const EvaluationSetup& setup, BatchSource& source,
                                        const EvaluationPlan& plan);

// Ranks of a micro-batch's targets among the classes (ops/loss/target_rank.h), from the logits of a
// forward pass outside training. Integers, equal in every layout.
class TargetRanks {
 public:
  // `model` holds the head and must outlive this.
  TargetRanks(Device& device, const Model& model);

  // (targets of the micro-batch) f32, on every tensor rank; until the next call. Collective over
  // these.
  [[nodiscard]] Tensor of(const Context& context) const;

 private:
  const HeadInfo& head_;
  Buffer values_, ranks_;
};

}  // namespace trireme
