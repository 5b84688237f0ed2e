// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/cli_fwd.h"

namespace trireme {

// `trireme campaign`, with `status` and `stop`: one process that starts jobs, and no rank itself.
void add_campaign_command(CLI::App& app);

}  // namespace trireme
