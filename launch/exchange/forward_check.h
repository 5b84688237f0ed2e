// SPDX-License-Identifier: Apache-2.0
// Whether weights mean the same here as where they come from: a forward pass on inputs that lie
// beside them in Hugging Face's directory, against the logits that another program stored there.
#pragma once

#include <optional>
#include <string>

#include "launch/engine/state/loaded_weights.h"
#include "runtime/config/model_config.h"

namespace trireme {

// In the directory, a safetensors file: input_ids (B, T) i32 or i64, or pixel_values (B, channels,
// height, width) f32, normalised; and logits (B, T, vocabulary) or (B, classes) f32.
inline constexpr const char* expectations_file = "trireme_expectations.safetensors";

struct Expectations {
  std::string path{};
  Shape inputs_shape{};
  std::vector<std::int32_t> tokens{};  // (B, T)
  std::vector<float> pixels{};         // (B, height, width, channels)
  Shape logits_shape{};
  std::vector<float> logits{};
};

// Nothing where the directory has none. Raises ExitCode::checkpoint for a file that is not one of
// `model`'s.
[[nodiscard]] std::optional<Expectations> read_expectations(const std::string& directory,
                                                            const ModelConfig& model);

// Runs the model in fp32 on one CPU, all of it in memory, and says how far its logits are. Raises
// ExitCode::checkpoint, with the largest difference and its place, where one is above 1e-4 of the
// largest logit, or of 1 where that is less.
void check_forward(const Expectations& expected, const ModelConfig& model,
                   const WeightsChoice& weights);

// What the model answers to fixed inputs, as such a file in `directory`.
void write_expectations(const std::string& directory, const ModelConfig& model,
                        const WeightsChoice& weights);

}  // namespace trireme
