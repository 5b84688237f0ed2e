// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/comm/communicator.h"

namespace trireme {

// Whether graphs of `device` can hold collectives: records one, of a group that is not used for
// anything else, since NCCL cannot go on with a group after its recording has failed. Logs the
// reason if not. Collective over `world`, a group of GPUs, and the same on all its ranks; blocks
// the host.
[[nodiscard]] bool can_record_collectives(Communicator& world, Device& device);

}  // namespace trireme
