// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "launch/cli_fwd.h"

namespace trireme {

// For commands that are the work of one process: under mpirun or srun the first rank does it, so
// that nothing is printed or written twice, and the others end with it.
void on_one_process(CLI::App& command, std::function<void()> work);

}  // namespace trireme
