// SPDX-License-Identifier: Apache-2.0
// What other settings would have gained, replayed with the times of a run that has ended. What a
// replay cannot be trusted with is left out, and so is what the config does not go with.
#pragma once

#include <optional>
#include <vector>

#include "launch/engine/training_state.h"
#include "launch/job/stage_costs.h"
#include "runtime/nn/batch_source.h"
#include "runtime/telemetry/verdict.h"
#include "runtime/train/meters/bubble_meter.h"

namespace trireme {

// The pipeline's bubble as measured and as the schedule predicts it from the stages' own times;
// nothing where there is no pipeline. Collective over the pipeline.
[[nodiscard]] std::optional<BubbleReport> pipeline_report(Session& session,
                                                          const PipelineRunner& runner,
                                                          const BubbleMeter& meter);

struct ReplayInput {
  // Of the steps of all ranks, with the wall time, and what is known of the run; rank 0's.
  RunSummary summary{};
  RunFacts facts{};
  std::optional<BubbleReport> pipeline{};  // these two on every rank
  std::optional<LastPass> last{};
  ReadWork reading{};  // of this rank's loader
};

// Rank 0's has the trials. Where gradients or a pipeline cost more than 2 % of the time, the idle
// groups and stages are measured, which writes into the gradients: behind the last step only.
// Collective.
[[nodiscard]] std::vector<Trial> replays_of(Session& session, const ReplayInput& input);

}  // namespace trireme
