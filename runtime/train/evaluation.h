// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/nn/batch_source.h"
#include "runtime/parallel/pipeline_runner.h"
#include "runtime/train/step/loss_totals.h"
#include "runtime/train/step/streams.h"

namespace trireme {

// How much of the validation set there is for each data-parallel rank.
struct EvaluationPlan {
  std::int64_t local_batches =
      0;  // micro-batches this rank runs; padding rows carry ignored targets
  // Micro-batches of the whole pass that each source has, one source behind the other.
  std::vector<std::int64_t> parts;
};

// Means over targets that count.
struct EvaluationResult {
  double loss = 0;  // nats, of all parts together
  double accuracy = 0;
  double top5 = 0;  // how often the target was among the five likeliest
  double targets = 0;
  struct Part {
    std::string source{};  // of several; the caller names it
    double loss = 0, accuracy = 0, top5 = 0, targets = 0;
  };
  std::vector<Part> parts{};
};

// What an evaluation runs on; all must outlive the call.
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

}  // namespace trireme
