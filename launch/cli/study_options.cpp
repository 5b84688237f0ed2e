// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/study_options.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "launch/cli/number_check.h"
#include "runtime/base/error.h"

namespace trireme {

void add_study_options(CLI::App& command, StudyArguments& arguments, const std::string& directory,
                       bool array) {
  std::vector<std::string> launchers{"mpirun", "srun", "sbatch"};
  if (array) launchers.emplace_back("array");
  add_value(
      command, "--launcher", arguments.launcher,
      fmt::format("mpirun (launch/mpi_run.sh), srun: one step of this allocation per run, "
                  "{}sbatch: one job per run{}",
                  array ? "" : "or ",
                  array ? ", or array: one job array for all runs that can start together" : ""),
      CLI::IsMember(launchers));
  command.add_option("--launcher-options", arguments.launcher_options,
                     "Further options of the launcher: \"--host a:4,b:4\", \"--partition=gpu "
                     "--gpus-per-node=8\"");
  add_value(command, "--jobs", arguments.runner.jobs,
            "Jobs of sbatch that may wait or run at once" +
                std::string(array ? ", or runs of an array that may run at once" : ""),
            integer_between(1, 1000));
  arguments.runner.directory = directory;
  command.add_option("--out", arguments.runner.directory, "Directory of the runs and reports")
      ->capture_default_str();
  command.add_flag("--resume", arguments.runner.resume, "Continue the study in --out");
}

studies::Launcher prepare_launcher(const StudyArguments& arguments, const std::string& job_name,
                                   const char* grace_seconds) {
  studies::Launcher launcher =
      studies::make_launcher(arguments.launcher, arguments.launcher_options);
  launcher.job_name = job_name;
  if (!launcher.is_batch() && arguments.runner.jobs > 1) {
    fail(ExitCode::config,
         "--jobs: {} jobs at once would disturb each other under {}; use 1, or --launcher sbatch",
         arguments.runner.jobs, arguments.launcher);
  }
  hold_signals(stop_signals);
  studies::set_study_environment(grace_seconds);
  return launcher;
}

void end_study(bool interrupted, int failed, const std::string& text) {
  if (interrupted) throw CLI::RuntimeError(static_cast<int>(ExitCode::requeue));
  if (failed == 0) return;
  fmt::print(stderr, "{} failed; --resume tries them again\n", text);
  throw CLI::RuntimeError(static_cast<int>(ExitCode::internal));
}

}  // namespace trireme
