// SPDX-License-Identifier: Apache-2.0
// What a training run leaves behind: weights, their average, and digests to compare layouts by.
#pragma once

#include "launch/engine/memory_plan.h"
#include "launch/engine/training_state.h"
#include "launch/job/run_report.h"
#include "runtime/checkpoint/restore/verify.h"
#include "runtime/train/meters/step_reports.h"

namespace trireme {

// Writes the files of the run directory where there is a `reporter` (rank 0; else null).
// Collective.
void write_results(Session& session, const TrainingState& trained, double final_loss,
                   Reporter* reporter);
// The same files from the checkpoint of the run's end, where it was killed before they were
// written. Collective.
void write_results(Session& session, const FoundCheckpoint& end);
// Writes memory.json: bytes by use. A disk that has no room is no reason to lose a run.
void write_memory(const BytesByRole& held, const Reporter& reporter);
// Writes time_split.jsonl: the steps of this start.
void write_time_split(const StepReports& steps, const Reporter& reporter);

}  // namespace trireme
