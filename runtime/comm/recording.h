// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/comm/communicator.h"

namespace trireme {

// Whether graphs of `device` can hold collectives. Tries to record one on a group of its own,
// because NCCL cannot use a group after a failed recording. Logs the reason if not. Collective over
// `world`, a group of GPUs, with the same result on all ranks; blocks the host.
[[nodiscard]] bool can_record_collectives(Communicator& world, Device& device);

}  // namespace trireme
