// SPDX-License-Identifier: Apache-2.0
// The keys that name files and directories.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/config/config.h"

namespace trireme::config {

// What a run reads; data.files and data.images may be patterns. Empty where the config names
// nothing.
[[nodiscard]] inline std::vector<std::string*> input_paths(Config& config) {
  std::vector<std::string*> paths{&config.train.initial_weights, &config.parallel.hardware};
  const auto add = [&](DataSource& data) {
    paths.insert(paths.end(),
                 {&data.path, &data.validation_path, &data.test_path, &data.statistics});
    for (auto* const list : {&data.files, &data.validation_files, &data.test_files, &data.images,
                             &data.validation_images}) {
      for (std::string& path : *list)
        paths.push_back(&path);
    }
  };
  add(config.data);
  for (NamedSource& source : config.data.sources)
    add(source);
  return paths;
}

// The part of a pattern that holds no *, ? or [: a whole path where there is none of these.
[[nodiscard]] std::filesystem::path fixed_part(const std::string& pattern);

// A relative path that is nothing in the current directory but something in `beside` becomes that
// one. Found nowhere it stays as written, so that the error about it names what the user wrote.
void resolve_path(std::string& path, const std::filesystem::path& beside);

}  // namespace trireme::config
