// SPDX-License-Identifier: Apache-2.0
// The runs of a study as jobs of a launcher: starts them, waits, interrupts them, and reports their
// ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/process.h"

namespace trireme::studies {

enum class LauncherKind : std::uint8_t {
  mpirun,
  srun,    // a step of this allocation for each run
  sbatch,  // a job for each run
  array    // one job array for all runs that can start together
};

struct Launcher {
  LauncherKind kind = LauncherKind::mpirun;
  std::vector<std::string> options;  // the user's, after the launcher's own
  std::string job_name{};            // for sbatch

  [[nodiscard]] bool is_batch() const {
    return kind == LauncherKind::sbatch || kind == LauncherKind::array;
  }
  // The command that runs `trireme ARGUMENTS` (train first) on so many ranks to its end, and ends
  // with its exit code. The output of sbatch's job goes to `job_log`.
  [[nodiscard]] std::vector<std::string> command(int ranks,
                                                 const std::vector<std::string>& arguments,
                                                 const std::string& job_log) const;
  // The number of the job that a log of sbatch names: "1234"; empty if there is none yet.
  [[nodiscard]] static std::string slurm_job_of(const std::string& log);
};

// By the names of LauncherKind; `options` are words separated by spaces. Raises ExitCode::config if
// the launcher is missing.
[[nodiscard]] Launcher make_launcher(const std::string& name, const std::string& options);

struct RunnerOptions {
  std::string directory;  // of the study
  bool resume = false;    // keep the results of this study that are there
  int jobs = 1;           // at most so many run, or wait in a queue, at once
};

struct RunEnd {
  int code = 0;          // of an array the worst of its runs
  std::string log{};     // that has its last words
  bool stopped = false;  // the study was being stopped
};

// One training run, or a part of one.
struct StudyRun {
  int ranks = 1;
  std::vector<std::string> arguments{};  // of `trireme`, train first
  std::string prefix{};                  // of its logs' paths: "DIR/" or "DIR/steps-1-4."
  std::function<void(const RunEnd&)> ended{};

  [[nodiscard]] std::string log() const { return prefix + "log.txt"; }
  [[nodiscard]] std::string slurm_log() const { return prefix + "slurm.txt"; }
};

class StudyJobs {
 public:
  // If the study resumes, removes from Slurm's queue what a killed start left there: all of that
  // starts again, and two jobs would meet in one run directory.
  StudyJobs(const Launcher& launcher, const RunnerOptions& options);

  // Calls `start_more` again and again until it returns false (nothing is left to start) and all
  // jobs have ended. SIGINT, SIGTERM (blocked by the caller, see stop_signals) and stop() end the
  // running jobs first. Returns whether the study was stopped.
  [[nodiscard]] bool run(const std::function<bool()>& start_more);
  // Starts nothing more, and says why once.
  void stop(std::string_view reason);

  // For `start_more`: whether another run may start now, or with an array more of them.
  [[nodiscard]] bool can_start() const;
  // One run as a job; with an array all runs as one job.
  void start(std::vector<StudyRun> runs);

  [[nodiscard]] bool is_array() const { return launcher_.kind == LauncherKind::array; }
  // The command of the run by itself, for a shell.
  [[nodiscard]] std::string command_of(const StudyRun& run) const;

 private:
  struct Running {
    std::vector<StudyRun> runs;
    std::unique_ptr<Job> job;
    bool cancelled = false;
  };
  void cancel_waiting() const;
  void cancel();
  void collect();
  [[nodiscard]] std::unique_ptr<Job> start_array(const std::vector<StudyRun>& runs);
  [[nodiscard]] std::string log_of(const Running& running, std::size_t run) const;

  const Launcher& launcher_;
  const RunnerOptions& options_;
  std::vector<Running> running_;
  int waves_ = 0;  // arrays so far
  bool stopping_ = false;
};

// The last line of a log that is not blank; the first line of the last error, if there is one.
[[nodiscard]] std::string last_words(const std::string& log);

// Environment of the scripts that start jobs: this program, and how many seconds a stopped run has
// to end. Keeps what is set.
void set_study_environment(const char* grace_seconds);

}  // namespace trireme::studies
