// SPDX-License-Identifier: Apache-2.0
// Which state of a run a command means. One rule for all of them: a run stands for its newest
// state, the weights that it ended with or its newest checkpoint that verifies, whichever has more
// steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/checkpoint/files/stored_values.h"
#include "runtime/checkpoint/restore/verify.h"

namespace trireme {

// What is taken of a run whose weights and newest checkpoint are of the same step. The weights are
// the same; the checkpoint has moments too, and is read twice.
enum class AtEqualSteps : std::uint8_t { weights, checkpoint };

struct RunState {
  std::string path;                  // a checkpoint's directory, or as WeightFiles takes it
  std::optional<std::int64_t> step;  // nothing: weights that do not say it
  std::optional<FoundCheckpoint> checkpoint;  // verified; nothing: weights
  std::string average_path;                   // the averages that a run's weights have beside them

  [[nodiscard]] bool has(ValueKind kind) const;
  // Where the values of a kind lie. Raises ExitCode::config for averages that it has not, and says
  // what has them.
  [[nodiscard]] StoredValues values(ValueKind kind) const;
  // "runs/a/checkpoints/step_00000100 (step 100)", for messages.
  [[nodiscard]] std::string describe(ValueKind kind = ValueKind::model) const;
};

// `path`: a run, its directory of checkpoints, a checkpoint, a .safetensors file, an index of
// several, or a directory of either in Hugging Face's names. Collective: rank 0 looks, all ranks
// verify a checkpoint together, each a part. Raises ExitCode::checkpoint, alike on all ranks, where
// there is nothing, where ranks find different states (verify.h), where a checkpoint that was
// named is damaged, or where all of a run are.
[[nodiscard]] RunState find_state(const std::string& path, Communicator& world,
                                  AtEqualSteps prefer = AtEqualSteps::weights);

// After how many steps a run wrote a weights file; nothing where it does not say, as those of older
// versions and of other programs. Raises ExitCode::checkpoint for what is no safetensors file.
[[nodiscard]] std::optional<std::int64_t> step_of_weights(const std::string& path);

}  // namespace trireme
