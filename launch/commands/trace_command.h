// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

// `trireme trace summary RUN_DIR|FILE`: reads what telemetry.trace has a run write.
void add_trace_command(CLI::App& app);

}  // namespace trireme
