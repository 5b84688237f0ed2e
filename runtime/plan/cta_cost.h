// SPDX-License-Identifier: Apache-2.0
// Slowdown of matmuls and of NCCL where they share a GPU's multiprocessors. Pure functions.
#pragma once

#include "runtime/plan/hardware.h"

namespace trireme::plan {

// Of NCCL's calls in a step; 0: not known, nothing is modelled.
struct MessageCtas {
  int link = 0;               // most thread blocks of a message between stages
  int data = 0;               // the same of gradients and gathered parameters
  int receives = 0;           // of a stage that are pending all the time
  int left = 0;               // multiprocessors that matmuls of every micro-batch leave
  bool left_to_data = false;  // so that hidden messages of the data group cost nothing more
};

// Time of a matmul that takes all `processors` by itself, relative to that, if messages hold `held`
// of them and its kernel has a thread block for all but `left`: blocks that find no multiprocessor
// run in another wave.
[[nodiscard]] double matmul_slowdown(int processors, int held, int left);

// Thread blocks of a message of less than 16 MiB in a group of `ranks` if NCCL may use `most`
// channels (2.28, paths.cc ncclTopoComputeP2pChannels, enqueue.cc scheduleP2pTasksToPlan): a power
// of two, halved until every rank of the group can have its own.
[[nodiscard]] int ctas_of_message(int ranks, int most);

// Channels with which NCCL fills the links of a domain; 0: not known.
[[nodiscard]] int channels_of(const Links& links);
// At most what `ctas` thread blocks move.
[[nodiscard]] Links bounded(Links links, int ctas);
// For computation beside messages, in a pipeline of `stages`.
[[nodiscard]] Hardware beside_messages(Hardware hardware, const MessageCtas& ctas, int stages);

}  // namespace trireme::plan
