// SPDX-License-Identifier: Apache-2.0
// What asynchronous saves cost the training steps beside them.
#pragma once

#include <string>
#include <vector>

#include "launch/engine/session.h"
#include "runtime/checkpoint/save/saver.h"
#include "runtime/train/step/step_engine.h"

namespace trireme {

// Milliseconds, one value per round but for the counts.
struct StepStall {
  int steps = 0;               // of each round and side: until a save is written, at least
  std::vector<double> plain;   // a step without a save
  std::vector<double> longer;  // all steps of a round with one save, beyond as many without
  std::vector<double> copy;    // to host memory, on the training stream
  std::vector<double> held;    // the host, in save()
};

// Trains on `source`, rounds with a save and without in turn; `save_seconds`: about how long one
// takes. Collective.
[[nodiscard]] StepStall measure_stall(Session& session, StepEngine& engine, BatchSource& source,
                                      CheckpointSaver& saver, double save_seconds, int rounds);

// In lines. What is less than steps vary by is called noise.
[[nodiscard]] std::string stall_text(const StepStall& stall);

}  // namespace trireme
