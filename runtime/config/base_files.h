// SPDX-License-Identifier: Apache-2.0
// Config inheritance: `base: FILE`, relative to the file that contains it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/config/yaml/document.h"

namespace trireme::config {

struct ConfigFile {
  std::string name;  // as in messages
  Node root{};       // without its `base`
  [[nodiscard]] std::filesystem::path directory() const {
    return std::filesystem::path(name).parent_path();
  }
};

inline constexpr std::size_t max_bases = 16;

// `path` and its bases in reading order: later files override earlier ones, and `path` is last.
// Raises ExitCode::config with "file:line: base: ..." for a base that is missing, no file name, or
// part of a cycle.
[[nodiscard]] std::vector<ConfigFile> read_with_bases(const std::string& path);

// Refuses a `base` in text that is not in a file.
void refuse_base(const Node& root, const std::string& name);

}  // namespace trireme::config
