// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

// `trireme eval RUN_DIRECTORY [--data PATH] [--weights FILE] [--set key=value]...`
void add_eval_command(CLI::App& app);

}  // namespace trireme
