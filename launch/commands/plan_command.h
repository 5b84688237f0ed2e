// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

// `trireme plan CONFIG --ranks N --hardware FILE [--nodes N] [--set key=value]... [--search]
// [--token-budget N] [--json FILE]`: memory, time and cost, or the fastest layouts;
// ExitCode::config where the plan does not fit. `trireme plan [CONFIG] --print-schedule [--stages
// N] [--micro-batches M] [--chunks C]
// [--schedule KIND] [--ranks N] [--width COLUMNS]`: the pipeline's schedule.
void add_plan_command(CLI::App& app);

}  // namespace trireme
