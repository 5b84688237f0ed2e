// SPDX-License-Identifier: Apache-2.0
// What the commands that run a study (scale, ablate) have in common.
#pragma once

#include <string>

#include "launch/guard.h"
#include "launch/study/jobs.h"

namespace trireme {

struct StudyArguments {
  studies::RunnerOptions runner;
  std::string launcher = "mpirun", launcher_options;

  // "mpirun --host a:4,b:4", for the reports.
  [[nodiscard]] std::string launcher_text() const {
    return launcher_options.empty() ? launcher : launcher + " " + launcher_options;
  }
};

// --launcher, --launcher-options, --jobs, --out (`directory` by default) and --resume. `array`:
// whether --launcher takes it, too.
void add_study_options(CLI::App& command, StudyArguments& arguments, const std::string& directory,
                       bool array);

// Checks the launcher and prepares this process for its jobs: blocks the signals that stop a study,
// and gives a stopped run `grace_seconds`.
[[nodiscard]] studies::Launcher prepare_launcher(const StudyArguments& arguments,
                                                 const std::string& job_name,
                                                 const char* grace_seconds);

// Ends the program with code 75 if the study was interrupted, with 1 if something failed: "3 of 8
// cells".
void end_study(bool interrupted, int failed, const std::string& text);

}  // namespace trireme
