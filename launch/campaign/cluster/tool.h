// SPDX-License-Identifier: Apache-2.0
// Programs that a campaign asks (sinfo, ssh) and the jobs that it leaves running.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/file.h"

namespace trireme::campaign {

struct ToolAnswer {
  int code = 0;  // 124: it took too long and was killed; 127: it is not there
  std::string output{}, errors{};
  [[nodiscard]] bool ok() const { return code == 0; }
  // The last line that says something, for messages.
  [[nodiscard]] std::string last_words() const;
};

// Runs `words` (looked up in PATH) to the end, out of reach of the terminal's Ctrl-C. `lock`: a
// file that stays open in it, so that a lock on it is held until the last of the two has ended.
[[nodiscard]] ToolAnswer ask(const std::vector<std::string>& words, double seconds = 60,
                             const FileDescriptor* lock = nullptr);
// All at once; the answers in the order of the commands.
[[nodiscard]] std::vector<ToolAnswer> ask_all(const std::vector<std::vector<std::string>>& commands,
                                              double seconds);

// Starts `words` in a session of its own, which outlives this process, with its output at the end
// of the file `log`, and `lock` open in it and in all that it starts. Raises ExitCode::config where
// it cannot be started.
void leave_running(const std::vector<std::string>& words, const std::string& log,
                   const FileDescriptor& lock);

}  // namespace trireme::campaign
