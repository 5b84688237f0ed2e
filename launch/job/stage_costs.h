// SPDX-License-Identifier: Apache-2.0
// What the stages of a pipeline cost when they are built otherwise and when all of them compute,
// measured when the steps are over.
#pragma once

#include <optional>

#include "launch/engine/session.h"
#include "runtime/train/meters/bubble_meter.h"
#include "runtime/train/meters/stage_probe.h"

namespace trireme {

struct StageCosts {
  // Stages that could compute at once as fast as one of them alone: ranks of a host share its
  // caches, memory and clock.
  double cores = 0;
  // The run's costs by virtual stage, changed as the passes change; empty where not measured.
  std::optional<Costs> split{};  // a backward in two parts
  std::optional<Costs> half{};   // of half a micro-batch
};

struct StageQuestions {
  bool split = false, half = false;
};

// Below ZeRO stage 2. Takes the time of some forty short steps and, beside the run's, the memory
// for the activations that each schedule asks for; nothing where that is not there. Writes into the
// gradients. `costs`: as the run measured them, on every rank. Collective; blocks the host.
[[nodiscard]] std::optional<StageCosts> measure_stages(Session& session, const Costs& costs,
                                                       const LastPass& last,
                                                       const StageQuestions& questions);

}  // namespace trireme
