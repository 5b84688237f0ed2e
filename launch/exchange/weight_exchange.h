// SPDX-License-Identifier: Apache-2.0
// Weights in the form of other programs: `trireme checkpoint export` and `import`.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/checkpoint/restore/run_state.h"
#include "runtime/config/config.h"

namespace trireme {

struct Destination {
  std::string to;
  bool force = false;  // replaces what is there; else ExitCode::config
};

// Makes a directory of Hugging Face's: weights in files of `shard_bytes` at most (a tensor that is
// larger has one of its own) with an index where there are several, config.json,
// generation_config.json, and the tokenizer of the run; `average`: of the averaged weights. Holds
// one tensor at a time. Adapters (lora.rank) are merged into the weights. Raises ExitCode::config
// for a family that has no form of its own in Hugging
// Face's libraries.
// `expectations`: with a file by which an import can check itself (forward_check.h), for which all
// of the model is held.
struct ExportOptions {
  bool average = false;
  std::uint64_t shard_bytes = 0;
  bool expectations = false;
  DType dtype = DType::f32;  // or bf16, f16
};
void export_weights(const RunState& from, const Config& config, const Destination& destination,
                    const ExportOptions& options);

// Reads a safetensors file, an index of several, or a directory of either, and writes a weights
// file of ours (NAME.safetensors, for a weights-only start), or a run's directory with config.yaml,
// weights.safetensors, the tokenizer and what ends a text, for generate and eval. A config.json
// beside the weights must be that of the same model. Everything is looked at before anything is
// written; then one tensor is held at a time. With `checked`, and expectations beside the weights,
// the weights that were written must answer as these say, or they are removed (forward_check.h).
void import_weights(const std::string& from, const ModelConfig& model,
                    const Destination& destination, bool checked);

// The model that the config.json beside Hugging Face's weights describes. Raises ExitCode::config
// for a kind that is not ours.
[[nodiscard]] ModelConfig model_of_hugging_face(const std::string& weights);
// The line of a config of ours that makes it.
[[nodiscard]] std::string model_section(const ModelConfig& model);

}  // namespace trireme
