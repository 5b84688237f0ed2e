// SPDX-License-Identifier: Apache-2.0
// What a training run leaves behind: weights, their average, and digests to compare layouts by.
#pragma once

#include "launch/run_report.h"
<<<<<<< HEAD
#include "launch/session.h"
#include "runtime/train/rank_times.h"
#include "runtime/train/step_engine.h"
=======
#include "launch/training_state.h"
>>>>>>> s5/planmem

namespace trireme {

// Writes the files of the run directory where there is a `reporter` (rank 0; else null).
// Collective.
<<<<<<< HEAD
void write_results(Session& session, const StepEngine& engine, double final_loss,
                   const Reporter* reporter, const AverageWeights& average);
// Writes time_split.jsonl likewise: the steps of this start. Collective.
void write_time_split(const Session& session, const RankTimes& times, const Reporter* reporter);
=======
void write_results(Session& session, const TrainingState& trained, double final_loss,
                   const Reporter* reporter);
>>>>>>> s5/planmem

}  // namespace trireme
