// SPDX-License-Identifier: Apache-2.0
// Files, directories and patterns to a list of files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// In the order given; what a directory or pattern stands for is sorted by path. Of a directory all
// files below that end in .h5, .hdf5, .he5 or .nc. A file that comes twice is taken once. Raises
// ExitCode::data naming what stands for no file.
[[nodiscard]] std::vector<std::string> expand_files(const std::vector<std::string>& names);

// Those that a pattern with * ? [] stands for, sorted; perhaps none. `key` is named where a
// directory of it cannot be read. Raises ExitCode::data.
[[nodiscard]] std::vector<std::string> files_like(std::string_view key, const std::string& pattern);

}  // namespace trireme
