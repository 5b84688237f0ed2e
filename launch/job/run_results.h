// SPDX-License-Identifier: Apache-2.0
// Final files of a training run: weights, their average, and digests to compare layouts.
#pragma once

#include "launch/engine/memory_plan.h"
#include "launch/engine/run_observer.h"
#include "launch/engine/training_state.h"
#include "launch/job/run_report.h"
#include "runtime/checkpoint/restore/verify.h"
#include "runtime/train/meters/step_reports.h"

namespace trireme {

// Writes the files of the run directory if there is a `reporter` (rank 0; else null). Collective.
void write_results(Session& session, const TrainingState& trained, const TrainingEnd& ending,
                   Reporter* reporter);
// The same files from the checkpoint of the run's end, if it was killed before it wrote them.
// Collective.
void write_results(Session& session, const FoundCheckpoint& end);
// Writes memory.json: bytes by use. A full disk does not fail the run.
void write_memory(const BytesByRole& held, const Reporter& reporter);
// Writes time_split.jsonl: the steps of this start.
void write_time_split(const StepReports& steps, const Reporter& reporter);

}  // namespace trireme
