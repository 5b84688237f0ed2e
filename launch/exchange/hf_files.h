// SPDX-License-Identifier: Apache-2.0
// Files beside the weights in a Hugging Face directory: tokenizer, generation settings, and the
// index of several weight files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/shard/shard.h"
#include "runtime/checkpoint/files/safetensors.h"

namespace trireme {

// Copies the files of `from` that concern the model's texts, not its weights; returns their names.
std::vector<std::string> copy_text_files(const std::string& from, const std::string& to);

// Keeps an imported config.json in the run, for settings that the model config lacks.
void keep_hf_config(const std::string& path, const std::string& run);
// Copies the imported files beside the weights: text files and the kept config.
void take_along(const std::string& from_run, const std::string& to_run);
// If all answers of the run's conversations end with the same special token, adds it to
// eos_token_id in the run's generation_config.json, and says so; exports have it in config.json
// too.
void keep_end_of_answers(const std::string& run, const Shard& shard);
// Adds to a model's `config_json`: class names, storage dtype, and from the config.json kept in
// `run` begin and end token ids, the context of rotary models, and classes.
[[nodiscard]] std::string described(const std::string& config_json, const std::string& run,
                                    const std::vector<std::string>& classes, DType dtype);

// Raises ExitCode::config for a tokenizer in the directory with ids beyond the model's vocabulary.
// Returns unsupported parts of the tokenizer, or "".
[[nodiscard]] std::string check_tokenizer(const std::string& directory, std::int64_t vocabulary);

// Removes the weights of an earlier export, and their description.
void remove_hf_weights(const std::string& directory);

// Writes model.safetensors, or if it would exceed the limit several files with an index; each holds
// at least one tensor, in the given order. Calls `values` once per tensor and holds one tensor at a
// time. Returns the number of files.
std::size_t write_hf_weights(const std::string& directory,
                             const std::vector<PlannedTensor>& tensors, std::uint64_t shard_bytes,
                             const std::function<std::vector<float>(std::size_t)>& values);

}  // namespace trireme
