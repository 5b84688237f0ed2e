// SPDX-License-Identifier: Apache-2.0
// A rank's training state besides its session: everything that computes. It uses neither data nor
// files, so it also works on a dry device (memory_plan.h).
#pragma once

#include <optional>

#include "launch/engine/session.h"
#include "runtime/checkpoint/slices.h"
#include "runtime/train/digests/weight_digests.h"
#include "runtime/train/health/self_test.h"
#include "runtime/train/meters/activation_counts.h"
#include "runtime/train/meters/expert_loads.h"
#include "runtime/train/replica_check.h"
#include "runtime/train/step/noise_meter.h"
#include "runtime/train/step/step_engine.h"

namespace trireme {

// The weight average, if the config has one. With ZeRO it holds this rank's slices.
class AverageWeights final : public StepMeter {
 public:
  AverageWeights(Session& session, double decay);
  void updated(std::int64_t step, Stream& compute, Stream& comm) override;
  [[nodiscard]] bool enabled() const { return buffer_.data() != nullptr; }
  // Indexed like Bucket::owned.
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
  // Starts the average from the current parameters. The session must outlive this. Collective.
  TrainingState(Session& session, StepOptions options);

  AverageWeights average;
  std::optional<WeightDigests> digests;         // if configured
  std::optional<NoiseMeter> noise;              // if configured: train.noise_scale_every
  std::optional<ExpertLoads> loads;             // if configured: train.log_every
  std::optional<ActivationCounts> activations;  // if configured: telemetry.histograms_every
  StepEngine engine;
  std::optional<ReplicaCheck> replicas;
  std::optional<SelfTest> self_test;

  // The values that a checkpoint holds.
  [[nodiscard]] CheckpointValues checkpoint_values() const;

 private:
  [[nodiscard]] StepOptions with_meters(Session& session, StepOptions options);

  Session& session_;
};

}  // namespace trireme
