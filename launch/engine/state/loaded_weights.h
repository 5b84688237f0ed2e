// SPDX-License-Identifier: Apache-2.0
// Reads the weights of a run or a file into a session's model.
#pragma once

#include <string>

#include "data/sets/dataset.h"
#include "launch/engine/session.h"
#include "runtime/checkpoint/restore/run_state.h"

namespace trireme {

struct WeightsChoice {
  std::string path;  // "": the run's newest state
  bool average = false;

  [[nodiscard]] ValueKind kind() const { return average ? ValueKind::average : ValueKind::model; }
};

struct LoadedWeights {
  RunState state;
  ValueKind kind = ValueKind::model;
  [[nodiscard]] std::string describe() const { return state.describe(kind); }
};

// Fills the model's parameters. Collective. Raises ExitCode::checkpoint if the state does not fit
// the config's model, ExitCode::config if `choice` wants averages that do not exist.
[[nodiscard]] LoadedWeights load_weights(Session& session, const std::string& run,
                                         const WeightsChoice& choice);

// Raises ExitCode::config, naming both values, if the run of train.initial_weights differs in keys
// that change what the weights compute; ExitCode::data if its tokenizer differs from that of
// `data`. Keys that extend a context (rotation, window) are only logged, if `speaks`.
void require_same_meaning(const Config& config, bool speaks, const Dataset& data);

// Raises ExitCode::non_finite with the first parameter that holds NaN or infinity, for a `result`
// ("the loss is nan") that only such weights explain. Collective.
[[noreturn]] void refuse_non_finite(Session& session, const LoadedWeights& weights,
                                    const std::string& result);

}  // namespace trireme
