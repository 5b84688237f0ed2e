// SPDX-License-Identifier: Apache-2.0
// How a job of several ranks is started, and stopped before its end.
#pragma once

#include <string>
#include <vector>

namespace trireme::scale {

enum class LauncherKind { mpirun, srun, sbatch };

struct Launcher {
  LauncherKind kind = LauncherKind::mpirun;
  std::vector<std::string> options;        // of the user, after the launcher's own
  std::string job_name = "trireme-scale";  // of sbatch

  // The command that runs `trireme ARGUMENTS` (train and what follows) on so many ranks to its end,
  // and ends with its exit code. What sbatch's job says goes to `job_log`.
  [[nodiscard]] std::vector<std::string> command(int ranks,
                                                 const std::vector<std::string>& arguments,
                                                 const std::string& job_log) const;
  // What a log of sbatch tells of its job: "1234", empty where there is none yet.
  [[nodiscard]] static std::string slurm_job_of(const std::string& log);
};

// "mpirun", "srun" or "sbatch"; `options` are words between spaces. Raises ExitCode::config where
// the launcher or one of its scripts is not there.
[[nodiscard]] Launcher make_launcher(const std::string& name, const std::string& options);

// Whether PATH has such a program.
[[nodiscard]] bool in_path(const std::string& program);
// This program's file.
[[nodiscard]] std::string own_binary();
// `name`, such as launch/mpi_run.sh, in the repository or installation that this program belongs
// to: TRIREME_HOME, or a directory above the program. Empty where there is none.
[[nodiscard]] std::string own_script(const std::string& name);
// launch/`name`; raises ExitCode::config where it is not there.
[[nodiscard]] std::string required_script(const std::string& name);

}  // namespace trireme::scale
