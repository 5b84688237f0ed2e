// SPDX-License-Identifier: Apache-2.0
// Converts the config.json of Hugging Face's libraries to our model config.
#pragma once

#include <string>

#include "models/registry.h"
#include "runtime/config/model_config.h"

namespace trireme {

// Raises ExitCode::config for an unsupported kind of model or setting.
[[nodiscard]] ModelConfig model_of_hf_config(const std::string& path);

// Checks that it describes `model`, ignoring keys that weights do not depend on: dropout, and the
// context of rotary models; without `head_too` also those of the head. A missing file is no error.
void check_hf_config(const std::string& path, const ModelConfig& model, bool head_too = true);

// preprocessor_config.json of Hugging Face's libraries: resize, crop and normalisation of input
// images.
inline constexpr const char* preprocessor_file = "preprocessor_config.json";

// The file's text for a run's evaluation: short side resized, centre crop, normalised.
[[nodiscard]] std::string preprocessor_text(const ModelTraits& traits, const DataConfig& data);

// The line of our config with the normalisation of the directory's file, "data: {mean: [...], std:
// [...]}\n", plus scaling: mean_std if values are not divided by 255; "" if there is no file.
// Raises ExitCode::checkpoint for an invalid file, ExitCode::config for pixels scaled otherwise and
// for another number of channels.
[[nodiscard]] std::string read_preprocessor(const std::string& directory,
                                            const ModelTraits& traits);

}  // namespace trireme
