// SPDX-License-Identifier: Apache-2.0
// Log lines before the first step of training.
#pragma once

#include "launch/engine/session.h"
#include "runtime/optim/optimizer.h"

namespace trireme {

void log_start(const Session& session, const Dataset& dataset);
// Device memory of training; each part on the rank with the most. Collective.
void log_memory(Session& session, const Optimizer& optimizer);

}  // namespace trireme
