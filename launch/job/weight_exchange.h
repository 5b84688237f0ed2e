// SPDX-License-Identifier: Apache-2.0
// Weights in the form of other programs: `trireme checkpoint export` and `import`.
#pragma once

#include <string>

#include "runtime/config/config.h"

namespace trireme {

// Makes the directory `out` with model.safetensors and config.json, from a checkpoint or a weights
// file of ours; `average`: the averaged weights of a checkpoint. Raises ExitCode::config for a
// family that has no form of its own in Hugging Face's libraries.
void export_weights(const std::string& from, const Config& config, const std::string& out,
                    bool average);

// Writes a weights file of ours (for generate, eval and a weights-only start) from a safetensors
// file, an index of several, or a directory of either. A config.json beside them must be that of
// the same model.
void import_weights(const std::string& from, const Config& config, const std::string& out);

}  // namespace trireme
