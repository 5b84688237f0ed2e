// SPDX-License-Identifier: Apache-2.0
// Keys that name files and directories.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/config/config.h"

namespace trireme::config {

// Inputs of a run; data.files and data.images may be patterns. Empty for keys without a value.
[[nodiscard]] inline std::vector<std::string*> input_paths(Config& config) {
  std::vector<std::string*> paths{&config.train.initial_weights, &config.parallel.hardware};
  const auto add = [&](DataSource& data) {
    paths.insert(paths.end(),
                 {&data.path, &data.validation_path, &data.test_path, &data.statistics});
    for (auto* const list :
         {&data.files, &data.validation_files, &data.test_files, &data.target_files,
          &data.validation_target_files, &data.images, &data.validation_images}) {
      for (std::string& path : *list)
        paths.push_back(&path);
    }
  };
  add(config.data);
  for (NamedSource& source : config.data.sources)
    add(source);
  return paths;
}

// The part of a pattern before any *, ? or [; the whole path if there is none.
[[nodiscard]] std::filesystem::path fixed_part(const std::string& pattern);

// If a relative path does not exist in the current directory but does in `beside`, replaces it by
// the latter. Otherwise keeps it as written, so that errors name what the user wrote.
void resolve_path(std::string& path, const std::filesystem::path& beside);

}  // namespace trireme::config
