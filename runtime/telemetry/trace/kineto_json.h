// SPDX-License-Identifier: Apache-2.0
// The trace of one rank in the JSON of Kineto, PyTorch's profiler, for tools that read a file per
// rank, such as Holistic Trace Analysis. They classify work by name and stream, and do not support
// nested work: the innermost spans of the compute stream become its kernels, collectives and
// messages become kernels whose names begin with nccl (on any transport, because such tools
// recognise communication so), steps become "ProfilerStep#10". The host's enqueueing of each is a
// CUDA runtime call with a nominal duration of a microsecond.
#pragma once

#include <string>

#include "runtime/telemetry/trace/rank_trace.h"

namespace trireme {

// The whole file.
[[nodiscard]] std::string kineto_json(const RankTrace& trace, const TraceFacts& facts);

}  // namespace trireme
