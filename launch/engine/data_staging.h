// SPDX-License-Identifier: Apache-2.0
// Copies of a run's data on its hosts' local disks.
#pragma once

#include <memory>
#include <vector>

#include "data/sets/dataset.h"
#include "data/staging/staging.h"
#include "runtime/comm/communicator.h"
#include "runtime/config/config.h"

namespace trireme {

// Starts to copy the files of `sets` to data.stage of every host, shared among its ranks, and
// returns; null if the config sets none. Raises ExitCode::config on all ranks if a host's directory
// cannot be used; a full disk is only logged. Collective; blocks the host.
[[nodiscard]] std::unique_ptr<Staging> start_staging(Communicator& world, const DataConfig& data,
                                                     const std::vector<const Dataset*>& sets);

}  // namespace trireme
