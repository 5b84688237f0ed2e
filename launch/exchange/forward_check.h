// SPDX-License-Identifier: Apache-2.0
// Checks that weights compute the same here as at their source: a forward pass on inputs from the
// Hugging Face directory, compared with logits that another program stored there.
#pragma once

#include <optional>
#include <string>

#include "launch/engine/state/loaded_weights.h"
#include "runtime/config/model_config.h"

namespace trireme {

// A safetensors file in the directory: input_ids (B, T) i32 or i64, or pixel_values (B, channels,
// height, width) f32, normalised; and logits (B, T, classes) or (B, outputs) f32. Of texts with
// labels attention_mask (B, T) i64 may say where their padding begins.
inline constexpr const char* expectations_file = "trireme_expectations.safetensors";

struct Expectations {
  std::string path{};
  Shape inputs_shape{};
  std::vector<std::int32_t> tokens{};  // (B, T)
  std::vector<std::int32_t> starts{};  // of documents, (B, T): of padded texts
  std::vector<float> pixels{};         // (B, height, width, channels)
  Shape logits_shape{};
  std::vector<float> logits{};
};

// Nothing if the directory has none. Raises ExitCode::checkpoint for a file that does not fit
// `model`.
[[nodiscard]] std::optional<Expectations> read_expectations(const std::string& directory,
                                                            const ModelConfig& model);

// Runs the model in fp32 on one CPU, held whole in memory, and reports the error of its logits.
// Raises ExitCode::checkpoint, with the largest difference and its place, if one exceeds 1e-4 of
// the largest logit (at least 1).
void check_forward(const Expectations& expected, const ModelConfig& model,
                   const WeightsChoice& weights);

// Writes such a file for fixed inputs to `directory`.
void write_expectations(const std::string& directory, const ModelConfig& model,
                        const WeightsChoice& weights);

}  // namespace trireme
