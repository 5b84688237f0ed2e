// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/session.h"

namespace trireme {

// Trains as the resolved config says and leaves a run directory: config, environment,
// metrics, weights. Collective over all ranks.
void run_training(const RankProcess& process, const Config& config,
                  const std::vector<std::string>& command_line);

}  // namespace trireme
