// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "models/config.h"
#include "runtime/base/error.h"

namespace trireme {

// The message of the config error that `action` raises.
template <typename Action>
std::string config_error(Action&& action) {
  try {
    static_cast<void>(action());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::config) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was raised";
  return "";
}

inline std::string parse_error(const std::string& text,
                               const std::vector<std::string>& overrides = {}) {
  return config_error([&] { return parse_config(text, "a.yaml", overrides); });
}

inline Config parsed(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_config(text, "a.yaml", overrides);
}

// A directory for one test, removed afterwards.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "trireme_config_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed for " + name);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  std::string write(const std::string& name, const std::string& text) const {
    const auto file = path_ / name;
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace trireme
