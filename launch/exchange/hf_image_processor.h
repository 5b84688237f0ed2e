// SPDX-License-Identifier: Apache-2.0
// preprocessor_config.json of Hugging Face's libraries: how pictures are resized, cropped and
// normalised before a model reads them.
#pragma once

#include <string>

#include "models/registry.h"

namespace trireme {

inline constexpr const char* preprocessor_file = "preprocessor_config.json";

// The file's text, of what a run's evaluation does: short side resized, centre taken, normalised.
[[nodiscard]] std::string preprocessor_text(const ModelTraits& traits, const DataConfig& data);

// The line of a config of ours that normalises as the directory's file says, "data: {mean: [...],
// std: [...]}\n", with scaling: mean_std where values are not divided by 255, or "" where there is
// none. Raises ExitCode::checkpoint for what is no such file, ExitCode::config for pixels that are
// scaled otherwise and for another number of channels.
[[nodiscard]] std::string read_preprocessor(const std::string& directory,
                                            const ModelTraits& traits);

}  // namespace trireme
