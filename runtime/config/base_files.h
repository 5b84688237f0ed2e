// SPDX-License-Identifier: Apache-2.0
// A config may begin with another one: `base: FILE`, relative to the file that says so.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/config/yaml/document.h"

namespace trireme::config {

struct ConfigFile {
  std::string name;  // as messages say it
  Node root{};       // without its `base`
  [[nodiscard]] std::filesystem::path directory() const {
    return std::filesystem::path(name).parent_path();
  }
};

inline constexpr std::size_t max_bases = 16;

// `path` and the files it is based on, in the order in which they are to be read: later ones say
// again what they want otherwise, and `path` is the last. Raises ExitCode::config with
// "file:line: base: ..." for a base that is missing, no file name, or leads back to a file that it
// is read for.
[[nodiscard]] std::vector<ConfigFile> read_with_bases(const std::string& path);

// For text that is in no file: refuses a `base`.
void refuse_base(const Node& root, const std::string& name);

}  // namespace trireme::config
