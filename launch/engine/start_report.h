// SPDX-License-Identifier: Apache-2.0
// What training logs before its first step.
#pragma once

#include "launch/engine/session.h"
#include "runtime/optim/optimizer.h"

namespace trireme {

void log_start(const Session& session, const Dataset& dataset);
// Device memory of training, each part on the rank where it is largest. Collective.
void log_memory(Session& session, const Optimizer& optimizer);

}  // namespace trireme
