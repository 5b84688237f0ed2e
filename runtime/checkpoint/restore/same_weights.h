// SPDX-License-Identifier: Apache-2.0
// Whether all ranks read the same checkpoint or weights: a copy on one host, or what a relative
// path leads to there, may be another run's, and ranks would mix two states. Collective; both raise
// ExitCode::checkpoint on all ranks alike, with which ranks on which hosts have what.
#pragma once

#include <string>

#include "runtime/checkpoint/restore/verify.h"

namespace trireme {

// By the manifest, which has a checksum of every value.
void require_same_checkpoint(Communicator& world, const FoundCheckpoint& found);

// `path` as WeightFiles takes it. By sizes and bytes of the files; of more than 64 MiB together by
// 64 KiB blocks that are spread evenly, which tells two trainings apart, but not every single byte.
void require_same_weights(Communicator& world, const std::string& path);

}  // namespace trireme
