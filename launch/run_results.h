// SPDX-License-Identifier: Apache-2.0
// What a training run leaves behind: weights, their average, and digests to compare layouts by.
#pragma once

#include "launch/run_report.h"
#include "launch/session.h"
#include "runtime/train/rank_times.h"
#include "runtime/train/step_engine.h"

namespace trireme {

// A weight average beside the weights, where the config asks for one.
class AverageWeights {
 public:
  AverageWeights(Session& session, double decay);
  void update();
  [[nodiscard]] bool enabled() const { return buffer_.data() != nullptr; }
  [[nodiscard]] Tensor values() const {
    return buffer_.view(DType::f32, Shape{session_.model->params().element_count()});
  }

 private:
  Session& session_;
  float decay_;
  Buffer buffer_;
};

// Writes the files of the run directory where there is a `reporter` (rank 0; else null).
// Collective.
void write_results(Session& session, const StepEngine& engine, double final_loss,
                   const Reporter* reporter, const AverageWeights& average);
// Writes time_split.jsonl likewise: the steps of this start. Collective.
void write_time_split(const Session& session, const RankTimes& times, const Reporter* reporter);

}  // namespace trireme
