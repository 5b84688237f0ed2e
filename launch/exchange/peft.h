// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters in the files of Hugging Face's peft: adapter_config.json and
// adapter_model.safetensors.
#pragma once

#include <string>

#include "launch/exchange/weight_exchange.h"

namespace trireme {

inline constexpr const char* peft_config = "adapter_config.json";

// Writes the adapters of a state trained with lora.*. What we adapt as one matrix and peft as
// several (queries, keys and values) becomes modules with the same A. The file remembers a digest
// of the base weights. What trained beside the factors (train.initial_reinitialise) becomes peft's
// modules_to_save. `base`: peft's base_model_name_or_path, may be empty. Raises ExitCode::config
// for a state without adapters, and targets that peft has no module for.
void export_adapter(const RunState& from, const Config& config, const Destination& destination,
                    const std::string& base);

// Makes a run of peft's directory and the state of its base: config.yaml with lora.*,
// weights.safetensors with both, and the base's tokenizer. Raises ExitCode::config for settings of
// peft that we lack (each by name), ExitCode::checkpoint for adapters of another base: modules,
// shapes, blocks without factors, or another digest.
void import_adapter(const std::string& from, const RunState& base, const Config& config,
                    const Destination& destination);

}  // namespace trireme
