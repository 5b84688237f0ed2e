// SPDX-License-Identifier: Apache-2.0
// Expands files, directories and patterns to a list of files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// In the given order; files from a directory or pattern are sorted by path. A directory gives all
// files below it that end in .h5, .hdf5, .he5 or .nc. Duplicates are dropped. Raises ExitCode::data
// naming an entry without files.
[[nodiscard]] std::vector<std::string> expand_files(const std::vector<std::string>& names);

// The files that match a pattern with * ? [], sorted; may be empty. Messages about an unreadable
// directory name `key`. Raises ExitCode::data.
[[nodiscard]] std::vector<std::string> files_like(std::string_view key, const std::string& pattern);

}  // namespace trireme
