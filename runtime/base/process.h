// SPDX-License-Identifier: Apache-2.0
// Programs that this one starts: those that it asks (sinfo, ssh), jobs, and helpers. They do not
// have the signals blocked that this process blocks; what it asks, and jobs, are out of reach of
// the terminal's Ctrl-C.
#pragma once

#include <sys/types.h>

#include <array>
#include <csignal>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/file.h"

namespace trireme {

inline constexpr int stream_as_here = -1, no_stream = -2;
struct Spawn {
  short flags = 0;  // of posix_spawn: whether it leads a group or a session
  int input = no_stream, output = stream_as_here, errors = stream_as_here;
  const FileDescriptor* lock = nullptr;  // stays open in it
  bool closes_rest = false;              // all descriptors but these, MPI's sockets too
  ExitCode failure = ExitCode::config;
};
// Starts `command` (looked up in PATH). Raises `failure` where it cannot be started.
[[nodiscard]] pid_t spawn(const std::vector<std::string>& command, const Spawn& how);
// Ends a process, or its group, and returns its wait status.
int kill_and_wait(pid_t process, bool group);

struct ToolAnswer {
  int code = 0;  // 124: it took too long and was killed; 127: it is not there
  std::string output{}, errors{};
  [[nodiscard]] bool ok() const { return code == 0; }
  // The last non-empty line, for messages.
  [[nodiscard]] std::string last_words() const;
};

// Runs `words` (searched in PATH) to the end. `lock`: a file that it inherits, so a lock on it is
// held until both have ended.
[[nodiscard]] ToolAnswer ask(const std::vector<std::string>& words, double seconds = 60,
                             const FileDescriptor* lock = nullptr);
// Runs a command on every host in parallel, with the agent that starts Open MPI's daemons:
// plm_rsh_agent (of Open MPI 5: plm_ssh_agent), else ssh. This host is not asked: its answer is a
// success. With `least`, each host gets three times the time of those that have answered, but at
// least `least` seconds.
[[nodiscard]] std::vector<ToolAnswer> ask_hosts(const std::vector<std::string>& hosts,
                                                const std::string& command, double seconds,
                                                const std::vector<double>& least = {});

class Job {
 public:
  // Starts `command` (searched in PATH) in a new process group, with output to the new file `log`
  // (empty: this process's output); it and its children inherit `lock`. Raises ExitCode::config if
  // it cannot be started.
  explicit Job(const std::vector<std::string>& command, std::string log = {},
               const FileDescriptor* lock = nullptr);
  // Kills it if it still runs.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Its exit code once it has ended; 128 + signal after a signal. Does not block.
  [[nodiscard]] std::optional<int> poll();
  // Asks the process group to end.
  void terminate();
  // To the process alone.
  void signal(int number) const;
  [[nodiscard]] const std::string& log() const { return log_; }
  [[nodiscard]] pid_t process() const { return process_; }

 private:
  std::string log_;
  pid_t process_ = -1;
  std::optional<int> code_;
};

// Starts `words` in a new session, which outlives this process, with output appended to the file
// `log`, and `lock` as above. Raises ExitCode::config if it cannot be started.
void leave_running(const std::vector<std::string>& words, const std::string& log,
                   const FileDescriptor& lock);

inline constexpr std::array stop_signals{SIGINT, SIGTERM};
// Has these signals wait until signal_within() looks. Before any other thread is there.
void hold_signals(std::span<const int> signals);
// A received signal, or 0 if none comes in this many seconds.
[[nodiscard]] int signal_within(std::span<const int> signals, double seconds);

// SIGHUP ends this process again, unless nohup ignores it. UCX, which Open MPI loads at its start
// or in MPI_Init, catches it to print traces: a run would outlive its terminal.
void restore_hangup();

// From now on threads have stacks of at least 8 MiB, whatever `ulimit -s`. Before the first thread.
void enlarge_thread_stacks();

// Whether PATH has such a program.
[[nodiscard]] bool in_path(const std::string& program);
// This program's file.
[[nodiscard]] std::string own_binary();
// `name`, such as launch/mpi_run.sh, in the repository or installation of this program: below
// TRIREME_HOME or a directory above the program. Empty if there is none.
[[nodiscard]] std::string own_script(const std::string& name);
// launch/`name`; raises ExitCode::config if it is missing.
[[nodiscard]] std::string required_script(const std::string& name);

// `word` as a shell reads it back: in quotes where it needs them.
[[nodiscard]] std::string shell_word(const std::string& word);

}  // namespace trireme
