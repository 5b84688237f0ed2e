// SPDX-License-Identifier: Apache-2.0
// What a rank of a training run holds beside its session: everything that computes, and nothing
// that touches data or files, so that it can be made on a dry device as well (memory_plan.h).
#pragma once

#include <optional>

#include "launch/engine/session.h"
#include "runtime/checkpoint/slices.h"
#include "runtime/train/health/self_test.h"
#include "runtime/train/meters/activation_counts.h"
#include "runtime/train/replica_check.h"
#include "runtime/train/step/step_engine.h"

namespace trireme {

// A weight average beside the weights, where the config asks for one. With ZeRO of the own slices.
class AverageWeights {
 public:
  AverageWeights(Session& session, double decay);
  void update();
  [[nodiscard]] bool enabled() const { return buffer_.data() != nullptr; }
  // Indexed as Bucket::owned.
  [[nodiscard]] Tensor values() const {
    return buffer_.view(DType::f32, Shape{session_.model->params().layout().owned_elements()});
  }
  [[nodiscard]] Tensor owned(const Bucket& bucket) const {
    const ParamLayout& layout = session_.model->params().layout();
    return values().range(bucket.owned, layout.slice_count(bucket));
  }

 private:
  Session& session_;
  float decay_;
  Buffer buffer_;
};

struct TrainingState {
  // Starts the average from the parameters as they are. The session must outlive this. Collective.
  TrainingState(Session& session, StepOptions options);

  AverageWeights average;
  std::optional<WeightDigests> digests;         // where the config asks for them
  std::optional<ActivationCounts> activations;  // likewise: telemetry.histograms_every
  StepEngine engine;
  std::optional<ReplicaCheck> replicas;
  std::optional<SelfTest> self_test;

  // Where a checkpoint's values lie.
  [[nodiscard]] CheckpointValues checkpoint_values() const;

 private:
  Session& session_;
};

}  // namespace trireme
