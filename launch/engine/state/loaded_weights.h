// SPDX-License-Identifier: Apache-2.0
// Reads the weights of a run or a file into a session's model.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/sets/dataset.h"
#include "launch/engine/session.h"
#include "launch/engine/training_state.h"
#include "runtime/checkpoint/gather.h"
#include "runtime/checkpoint/restore/restore.h"
#include "runtime/checkpoint/restore/run_state.h"

namespace trireme {

struct WeightsChoice {
  std::string path;  // "": the run's newest state
  bool average = false;
  bool best = false;  // of the run's best evaluation (checkpoint.keep_best)

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

// Metadata of an imported weights file: patterns of the tensors that it lacks, by spaces.
inline constexpr const char* lacking_key = "reinitialise";

// What a run takes of `state`, train.initial_weights.
[[nodiscard]] WeightSelection selection_of(const Config& config, const RunState& state);

// Raises ExitCode::config, naming both values, if the run of train.initial_weights differs in keys
// that change what the weights compute; ExitCode::data if its tokenizer differs from that of
// `data`. Keys that extend a context (rotation, window) are only logged, if `speaks`.
void require_same_meaning(const Config& config, bool speaks, const Dataset& data);

// Raises ExitCode::non_finite with the first parameter that holds NaN or infinity, for a `result`
// ("the loss is nan") that only such weights explain. Collective.
[[noreturn]] void refuse_non_finite(Session& session, const LoadedWeights& weights,
                                    const std::string& result);

// Gathers distributed tensors on rank 0, to write them or to compare layouts. All functions are
// collective.

// Empty except on rank 0. Includes statistics.
[[nodiscard]] std::vector<WholeTensor> gather_weights(Session& session);
[[nodiscard]] std::vector<WholeTensor> gather_average(Session& session,
                                                      const AverageWeights& average);
// Over both moments.
[[nodiscard]] std::string optimizer_digest(Session& session, const Optimizer& optimizer);

// Metadata of a weights file; `step`: number of steps trained. `reached`: what passed train.stop_at
// there. Local.
[[nodiscard]] std::map<std::string, std::string> weights_metadata(
    std::optional<std::int64_t> step, const std::optional<ReachedTarget>& reached = {});

}  // namespace trireme
