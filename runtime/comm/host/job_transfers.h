// SPDX-License-Identifier: Apache-2.0
// Private to this room.
#pragma once

#include <memory>

#include "runtime/comm/host/transfers.h"

namespace trireme {

// A new group of messages between all ranks of the job, or null in a job of one. Collective.
[[nodiscard]] std::unique_ptr<Transfers> make_job_transfers();

}  // namespace trireme
