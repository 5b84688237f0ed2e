// SPDX-License-Identifier: Apache-2.0
// How many multiprocessors of a GPU the matmuls of a step leave to messages under way.
//
// Note [Matmuls beside messages]
// NCCL's kernels hold their multiprocessors until their messages are over. A matmul kernel with a
// thread block for every multiprocessor then runs some of its blocks behind the others, in a second
// wave, and takes twice as long. With a smaller number of multiprocessors (cuBLASLt's SM count
// target) it takes one wave, but cuBLASLt may choose another algorithm, with other bits. So the
// number is a pure function of the micro-batch, not of what has arrived: runs, resumed runs,
// replayed graphs, recomputed passes and reduction behind backward have the same bits. With
// reproducibility: layout one number holds everywhere, on every layout (ExecutionPolicy).
#pragma once

#include <set>

namespace trireme {

struct MessageProcessors {
  int receives = 0;  // of a stage that wait for its neighbours at once, posted ahead: all the step
  int link = 0;      // for each of them
  int tensor = 0;    // for sums within layers: all the step
  int data = 0;      // for gradients, while they are under way
  int gather = 0;    // for parameters of ZeRO, likewise; on a stream of their own
  int zero = 0;      // the stage, which decides when that is

  // In every micro-batch.
  [[nodiscard]] int everywhere() const;
  // In both passes of one of a rank's `micro_batches`.
  [[nodiscard]] int beside(int micro_batch, int micro_batches) const;
  // All that beside() can be, and 0: evaluation leaves nothing.
  [[nodiscard]] std::set<int> values() const;
};

}  // namespace trireme
