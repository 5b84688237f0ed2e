// SPDX-License-Identifier: Apache-2.0
// The keys that name files and directories.
#pragma once

#include <array>
#include <filesystem>
#include <string>

#include "runtime/config/config.h"

namespace trireme::config {

// What a run reads. Empty where the config names nothing.
[[nodiscard]] inline std::array<std::string*, 4> input_paths(Config& config) {
  return {&config.data.path, &config.data.validation_path, &config.train.initial_weights,
          &config.parallel.hardware};
}

// A relative path that is nothing in the current directory but something in `beside` becomes that
// one. Found nowhere it stays as written, so that the error about it names what the user wrote.
void resolve_path(std::string& path, const std::filesystem::path& beside);

}  // namespace trireme::config
