// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/config/config.h"
#include "runtime/plan/step_time.h"

namespace trireme {

// What the planner needs to know of a run, as training builds it. `config` is resolved, for
// mesh_shape(config.parallel).size() ranks. Raises ExitCode::config for a pipeline that has no such
// schedule.
[[nodiscard]] plan::StepInput step_input(const Config& config);

}  // namespace trireme
