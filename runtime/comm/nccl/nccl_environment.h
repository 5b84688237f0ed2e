// SPDX-License-Identifier: Apache-2.0
// Private to this folder: several ranks on one GPU.
#pragma once

#include "runtime/comm/communicator.h"

namespace trireme {

// NCCL refuses ranks that share a GPU. Where ranks of `group` do, this sets NCCL_HOSTID of this
// rank and the transport that works then, as far as the user has not set them, and logs once what
// it set. Where they may not, raises ExitCode::config. Collective; before the first call that makes
// NCCL read its environment.
void prepare_for_shared_gpus(Communicator& group, Device& device, bool may_share);

}  // namespace trireme
