// SPDX-License-Identifier: Apache-2.0
// Finds the state of a run that a command means. One rule for all commands: a run's newest state,
// which is its final weights or its newest checkpoint that verifies, whichever has more steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/checkpoint/files/stored_values.h"
#include "runtime/checkpoint/restore/verify.h"

namespace trireme {

// Which to use if a run's weights and newest checkpoint are of the same step. The weights are
// equal; the checkpoint also has moments, and is read twice.
enum class AtEqualSteps : std::uint8_t { weights, checkpoint };

struct RunState {
  std::string path;                           // a checkpoint directory, or a path for WeightFiles
  std::optional<std::int64_t> step;           // empty: not stored in the weights
  std::optional<FoundCheckpoint> checkpoint;  // verified; nothing if these are plain weights
  std::string average_path;                   // averages stored beside a run's weights

  [[nodiscard]] bool has(ValueKind kind) const;
  // Locates the values of a kind. Raises ExitCode::config for missing averages, naming places that
  // have them.
  [[nodiscard]] StoredValues values(ValueKind kind) const;
  // For messages: "runs/a/checkpoints/step_00000100 (step 100)".
  [[nodiscard]] std::string describe(ValueKind kind = ValueKind::model) const;
};

// `path`: a run, its directory of checkpoints, a checkpoint, a .safetensors file, an index of
// several, or a directory of either in Hugging Face's names. Collective: rank 0 searches, and all
// ranks verify a checkpoint together, each a part. Raises ExitCode::checkpoint on all ranks if
// nothing is found, if ranks find different states (verify.h), if a named checkpoint is damaged, or
// if all of a run are.
[[nodiscard]] RunState find_state(const std::string& path, Communicator& world,
                                  AtEqualSteps prefer = AtEqualSteps::weights);

// The step stored in a run's weights file; nothing if the file has none (older versions, other
// programs). Raises ExitCode::checkpoint if it is not a safetensors file.
[[nodiscard]] std::optional<std::int64_t> step_of_weights(const std::string& path);

}  // namespace trireme
