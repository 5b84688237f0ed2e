// SPDX-License-Identifier: Apache-2.0
// The weights of a run or a file, read into a session's model.
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

// Fills the model's parameters. Collective. Raises ExitCode::checkpoint for what is no state of the
// config's model, ExitCode::config for averages that there are none of.
[[nodiscard]] LoadedWeights load_weights(Session& session, const std::string& run,
                                         const WeightsChoice& choice);

// Raises ExitCode::config, naming both values, where the run that train.initial_weights names has
// other keys by which the same weights are another model, ExitCode::data where its tokenizer was
// another than that of `data`. What lengthens a context (rotation, window) is only said, where
// `speaks`.
void require_same_meaning(const Config& config, bool speaks, const Dataset& data);

// Raises ExitCode::non_finite with the first parameter that holds NaN or infinity, for a `result`
// ("the loss is nan") that only such weights explain. Collective.
[[noreturn]] void refuse_non_finite(Session& session, const LoadedWeights& weights,
                                    const std::string& result);

}  // namespace trireme
