// SPDX-License-Identifier: Apache-2.0
// The trace of one rank in the JSON of Kineto, PyTorch's profiler, for tools that read a file per
// rank, such as Holistic Trace Analysis. They tell work apart by name and by stream, and know no
// work within work: the innermost spans of the compute stream become its kernels, collectives and
// messages become kernels whose names begin with nccl (also where something else carries them, for
// that is how such tools know communication), steps become "ProfilerStep#10". The host's enqueueing
// of each is a call of the CUDA runtime, of a nominal microsecond.
#pragma once

#include <string>

#include "runtime/telemetry/trace/rank_trace.h"

namespace trireme {

// The whole file.
[[nodiscard]] std::string kineto_json(const RankTrace& trace, const TraceFacts& facts);

}  // namespace trireme
