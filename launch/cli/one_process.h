// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "launch/cli_fwd.h"

namespace trireme {

// Runs the work of a one-process command: under mpirun or srun only the first rank does it, and the
// others wait for its end.
void run_on_one_process(const std::function<void()>& work);
// A command that is nothing else.
void on_one_process(CLI::App& command, std::function<void()> work);

// For commands that start jobs: refuses to run as a rank of a job, because every rank would start
// the same jobs.
void require_no_ranks(const CLI::App& command);

}  // namespace trireme
