// SPDX-License-Identifier: Apache-2.0
// Measures how much asynchronous saves slow down training steps.
#pragma once

#include <string>
#include <vector>

#include "launch/engine/session.h"
#include "runtime/checkpoint/save/saver.h"
#include "runtime/train/step/step_engine.h"

namespace trireme {

// Milliseconds, one value per round, except for the counts.
struct StepStall {
  int steps = 0;               // per round and side: at least until a save is written
  std::vector<double> plain;   // a step without a save
  std::vector<double> longer;  // extra time of a round with one save over a round without
  std::vector<double> copy;    // to host memory, on the training stream
  std::vector<double> held;    // the host blocked in save()
};

// Trains on `source`, alternating rounds with and without a save; `save_seconds`: estimate of a
// save. Collective.
[[nodiscard]] StepStall measure_stall(Session& session, StepEngine& engine, BatchSource& source,
                                      CheckpointSaver& saver, double save_seconds, int rounds);

// As text. Differences below the variation of steps are called noise.
[[nodiscard]] std::string stall_text(const StepStall& stall);

}  // namespace trireme
