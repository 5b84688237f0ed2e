// SPDX-License-Identifier: Apache-2.0
// Files, directories and patterns to a list of files.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// In the order given; what a directory or pattern stands for is sorted by path. Of a directory all
// files below that end in .h5, .hdf5, .he5 or .nc. A file that comes twice is taken once. Raises
// ExitCode::data naming what stands for no file.
[[nodiscard]] std::vector<std::string> expand_files(const std::vector<std::string>& names);

}  // namespace trireme
