// SPDX-License-Identifier: Apache-2.0
// A launcher as a child process, with its output in a file.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace trireme::scale {

class Job {
 public:
  // Starts `command` (looked up in PATH) in a process group of its own, so that the terminal's
  // Ctrl-C reaches only the study. Raises ExitCode::config where it cannot be started.
  Job(const std::vector<std::string>& command, const std::string& log);
  // Kills what still runs.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Its exit code once it has ended; 128 + signal where a signal ended it. Does not block.
  [[nodiscard]] std::optional<int> poll();
  // Asks the process group to end.
  void terminate();
  [[nodiscard]] const std::string& log() const { return log_; }

 private:
  std::string log_;
  pid_t process_ = -1;
  std::optional<int> code_;
};

// `word` as a shell reads it back: in quotes where it needs them.
[[nodiscard]] std::string shell_word(const std::string& word);

}  // namespace trireme::scale
