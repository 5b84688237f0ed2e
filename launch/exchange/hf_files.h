// SPDX-License-Identifier: Apache-2.0
// What lies beside the weights in a directory of Hugging Face's libraries: tokenizer, settings of
// generation, and an index where there are several files of weights.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/checkpoint/files/safetensors.h"

namespace trireme {

// Copies those files of `from` that belong to the model's texts and not to its weights; the names
// of those that were there.
std::vector<std::string> copy_text_files(const std::string& from, const std::string& to);

// A run keeps the config.json that it was imported with, for what is no part of the model.
void keep_hf_config(const std::string& path, const std::string& run);
// What an import brought goes on with the weights: text files and the kept config.
void take_along(const std::string& from_run, const std::string& to_run);
// `config_json` of a model with what else is known: the names of its classes, the storage of its
// weights, and what the config.json kept in `run` says of the ids that begin and end texts, of the
// context where positions are rotary, and of classes.
[[nodiscard]] std::string described(const std::string& config_json, const std::string& run,
                                    const std::vector<std::string>& classes, DType dtype);

// Raises ExitCode::config for a tokenizer in the directory with ids beyond the model's vocabulary.
// What a tokenizer has that is not read here, or "".
[[nodiscard]] std::string check_tokenizer(const std::string& directory, std::int64_t vocabulary);

// Removes the weights that an earlier export left, and what it said of them.
void remove_hf_weights(const std::string& directory);

// Writes model.safetensors, or where that would have more bytes several files and their index: each
// has tensors in the given order, one at least. `values` gives the elements of a tensor, which is
// asked for once; no more than one is held. Returns how many files.
std::size_t write_hf_weights(const std::string& directory,
                             const std::vector<PlannedTensor>& tensors, std::uint64_t shard_bytes,
                             const std::function<std::vector<float>(std::size_t)>& values);

}  // namespace trireme
