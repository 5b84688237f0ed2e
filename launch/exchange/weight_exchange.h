// SPDX-License-Identifier: Apache-2.0
// `trireme checkpoint export` and `import`: weights in the formats of other programs.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "runtime/checkpoint/restore/run_state.h"
#include "runtime/config/config.h"

namespace trireme {

struct Destination {
  std::string to;
  bool force = false;  // replace existing files; else ExitCode::config
};

// Writes a Hugging Face directory: weights in files of at most `shard_bytes` (a larger tensor gets
// its own file) with an index if there are several, config.json, generation_config.json, and the
// run's tokenizer; `average`: of the averaged weights. Holds one tensor at a time. Merges adapters
// (lora.rank) into the weights. Raises ExitCode::config for a family that Hugging Face's libraries
// lack. `expectations`: also writes a file by which an import can check itself (forward_check.h),
// which needs memory for the whole model.
struct ExportOptions {
  bool average = false;
  std::uint64_t shard_bytes = 0;
  bool expectations = false;
  DType dtype = DType::f32;  // also bf16, f16
};
void export_weights(const RunState& from, const Config& config, const Destination& destination,
                    const ExportOptions& options);

// Reads a safetensors file, an index of several, or a directory of either, and writes our weights
// file (NAME.safetensors, for a weights-only start) or a run directory with config.yaml,
// weights.safetensors, the tokenizer and end tokens, for generate and eval. A config.json beside
// the weights must describe the same model. Checks everything before writing; then holds one tensor
// at a time. With `checked`, and expectations beside the weights, the written weights must
// reproduce these, or they are removed (forward_check.h).
// `reinitialise`: patterns of our tensors that are left out, because the files lack them or have
// them for another task; the weights name them, so that a run that trains from these gives them
// fresh values and nothing else reads them.
void import_weights(const std::string& from, const ModelConfig& model,
                    const Destination& destination, bool checked,
                    const std::vector<std::string>& reinitialise = {});

// Raises ExitCode::config if the path exists and may not be replaced.
void refuse_to_replace(const std::string& path, const Destination& destination);
// Makes a directory and its parents; raises ExitCode::config if that fails. An error afterwards
// removes what it made, with its files: a part of a model looks like one.
class OutputPlace {
 public:
  explicit OutputPlace(const std::string& path);
  ~OutputPlace();
  OutputPlace(const OutputPlace&) = delete;
  OutputPlace& operator=(const OutputPlace&) = delete;

 private:
  std::string made_;  // the first of the path that was not there
  int errors_ = std::uncaught_exceptions();
};
// The directory of the run that contains weights or a checkpoint, for its tokenizer.
[[nodiscard]] std::string text_files_of(const std::string& state);

// The model of the config.json beside Hugging Face's weights. Raises ExitCode::config for an
// unsupported kind.
[[nodiscard]] ModelConfig model_of_hugging_face(const std::string& weights);
// The line of our config for this model.
[[nodiscard]] std::string model_section(const ModelConfig& model);

}  // namespace trireme
