// SPDX-License-Identifier: Apache-2.0
// The files below a directory that packers read, each once.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// Paths start with `directory` and are sorted. Left out are names with a leading dot and all below
// them; symbolic links to nothing; links to a file or a folder that is there already, by itself or
// by an earlier link, so that loops end; and sockets, pipes and devices. Other links are followed.
// What was left out is counted in the log. Raises std::filesystem::filesystem_error for what cannot
// be listed.
[[nodiscard]] std::vector<std::string> list_files(const std::string& directory);

}  // namespace trireme
