// SPDX-License-Identifier: Apache-2.0
// Weights in the form of other programs: `trireme checkpoint export` and `import`.
#pragma once

#include <string>

#include "runtime/checkpoint/restore/run_state.h"
#include "runtime/config/config.h"

namespace trireme {

struct Destination {
  std::string to;
  bool force = false;  // replaces what is there; else ExitCode::config
};

// Makes the directory with model.safetensors and config.json; `average`: of the averaged weights.
// Raises ExitCode::config for a family that has no form of its own in Hugging Face's libraries.
void export_weights(const RunState& from, const Config& config, const Destination& destination,
                    bool average);

// Writes a weights file of ours (for generate, eval and a weights-only start) from a safetensors
// file, an index of several, or a directory of either. A config.json beside them must be that of
// the same model.
void import_weights(const std::string& from, const ModelConfig& model,
                    const Destination& destination);

// The model that the config.json beside Hugging Face's weights describes. Raises ExitCode::config
// for a kind that is not ours.
[[nodiscard]] ModelConfig model_of_hugging_face(const std::string& weights);
// The line of a config of ours that makes it.
[[nodiscard]] std::string model_section(const ModelConfig& model);

}  // namespace trireme
