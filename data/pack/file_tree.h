// SPDX-License-Identifier: Apache-2.0
// The files below a directory that packers read, each once.
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct FileTree {
  std::vector<std::string> files;    // sorted; paths start with the directory
  std::vector<std::string> folders;  // the directory itself, and those below that were looked into
  std::string left_out;              // what, how many and the first of each kind; "" for nothing
};

// Left out are names with a leading dot and all below them; symbolic links to nothing; links to a
// file or a folder that is there already, by itself or by an earlier link, so that loops end; and
// sockets, pipes and devices. Other links are followed. Raises std::filesystem::filesystem_error
// for what cannot be listed.
[[nodiscard]] FileTree walk_files(const std::string& directory);

// Its files. What was left out is counted in the log.
[[nodiscard]] std::vector<std::string> list_files(const std::string& directory);

}  // namespace trireme
