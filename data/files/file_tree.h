// SPDX-License-Identifier: Apache-2.0
// The files below a directory, each once, for packers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct FileTree {
  std::vector<std::string> files;    // sorted; paths start with the directory
  std::vector<std::string> folders;  // the directory itself and the visited ones below it
  std::string left_out;              // per kind: reason, count and first example; "" for nothing
};

// Skips names with a leading dot and all below them; broken symbolic links; links to a file or
// folder that is already included, directly or through an earlier link, so loops end; and sockets,
// pipes and devices. Follows other links. Raises std::filesystem::filesystem_error for unreadable
// directories.
[[nodiscard]] FileTree walk_files(const std::string& directory);

// The files only. Logs the number of skipped ones.
[[nodiscard]] std::vector<std::string> list_files(const std::string& directory);

// In the given order; files from a directory or pattern are sorted by path. A directory gives all
// files below it that end in .h5, .hdf5, .he5, .nc, .mat, .npy or .npz. Duplicates are dropped.
// Raises ExitCode::data naming an entry without files.
[[nodiscard]] std::vector<std::string> expand_files(const std::vector<std::string>& names);

// The files that match a pattern with * ? [], sorted; may be empty. Messages about an unreadable
// directory name `key`. Raises ExitCode::data.
[[nodiscard]] std::vector<std::string> files_like(std::string_view key, const std::string& pattern);

}  // namespace trireme
