// SPDX-License-Identifier: Apache-2.0
// Copies of a run's data on the disks of its hosts.
#pragma once

#include <memory>
#include <vector>

#include "data/sets/dataset.h"
#include "data/staging/staging.h"
#include "runtime/comm/communicator.h"
#include "runtime/config/config.h"

namespace trireme {

// Begins to copy what `sets` read to data.stage of every host, by all of its ranks, and returns;
// null where the config asks for none. Raises ExitCode::config on all ranks where the directory of
// a host cannot be used; a disk that is full is a line in the log. Collective; blocks the host.
[[nodiscard]] std::unique_ptr<Staging> start_staging(Communicator& world, const DataConfig& data,
                                                     const std::vector<const Dataset*>& sets);

}  // namespace trireme
