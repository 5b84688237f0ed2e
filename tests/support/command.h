// SPDX-License-Identifier: Apache-2.0
// Runs a shell command to its end, for tests of whole programs.
#pragma once

#include <string>

namespace trireme::test {

struct CommandResult {
  int exit_code = -1;  // 124: it ran past the limit and was killed
  std::string output;  // stdout and stderr together
  double seconds = 0;
};

[[nodiscard]] CommandResult run_command(const std::string& command, int limit_seconds = 60);

// A directory that its destructor removes.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

[[nodiscard]] std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& content);

}  // namespace trireme::test
