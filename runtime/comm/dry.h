// SPDX-License-Identifier: Apache-2.0
// Groups for a dry device (device/dry/dry_device.h): one rank's view of a job that does not run.
#pragma once

#include <memory>
#include <string>

#include "runtime/comm/communicator.h"

namespace trireme {

// Rank `rank` of `size`. Calls check their arguments, are counted and do nothing else. split()
// returns a group of the same ranks, as there are no peers to ask; ProcessMesh::dry makes the
// groups of a mesh.
[[nodiscard]] std::unique_ptr<Communicator> make_dry_communicator(int rank, int size,
                                                                  std::string name);

}  // namespace trireme
