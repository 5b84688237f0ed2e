// SPDX-License-Identifier: Apache-2.0
// Describes HDF5 files and how a run would read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/kinds.h"

namespace trireme {

// Whether the first file of a name is an HDF5 file, and no packed shard.
[[nodiscard]] bool names_files(const std::string& name);

// A config that trains on the names (files, directories, patterns), after comments on the first
// file's content: shapes, types, storage, ranges and NaNs. Takes the most probable reading that
// holds (guess.h), and names others. Raises ExitCode::data if the first file is unreadable.
[[nodiscard]] Description describe_files(const DataPlace& place);

// Whether something of this name is likely a label.
[[nodiscard]] bool sounds_like_label(const std::string& name);
// For a YAML file: a text, and a list of them.
[[nodiscard]] std::string yaml_text(const std::string& text);
[[nodiscard]] std::string yaml_list(const std::vector<std::string>& texts);
// The text before and after the data section of a printed config.
[[nodiscard]] std::string model_text(std::int64_t height, std::int64_t width, std::int64_t channels,
                                     const std::string& head);
[[nodiscard]] std::string training_text(std::int64_t samples);

}  // namespace trireme
