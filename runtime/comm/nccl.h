// SPDX-License-Identifier: Apache-2.0
// The NCCL back end. Does not include nccl.h.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/comm/communicator.h"

namespace trireme {

// out = the sum of the blocks of `blocks` (n, out.count()) in the order of reduce.h, in which the
// first `doubled` count twice: ops::sum_blocks, which this module may not call itself.
using SumBlocks = std::function<void(Stream& stream, const Tensor& out, const Tensor& blocks,
                                     std::int64_t doubled)>;

struct NcclOptions {
  // How long the host waits for NCCL to connect, split or start a call; 0: for ever. Watched
  // monitors calls that run on the GPU.
  double deadline_seconds = 0;
  // NCCL's own variables (NCCL_MAX_CTAS and its like) come before these, with a warning.
  CtaLimits ctas = {};
  // "Socket", "IB" or a plug-in name; empty: NCCL's choice.
  std::string net = {};
  // The same bits from run to run: without NVLink SHARP, whose sums depend on arrival
  // (NVIDIA/nccl#1497). An environment that asks for it all the same raises ExitCode::config.
  bool repeatable = false;
  // Whether several ranks may run on one GPU; else that raises ExitCode::config.
  bool share_gpus = true;
  // So many ranks meet at one of them while NCCL connects the world; more use several (nccl_roots).
  int ranks_per_root = 128;
  // If set, floating-point sums use it and follow the tree over ranks of reduce.h, as over MPI.
  // Empty: NCCL's own order, which depends on its choice of algorithm.
  SumBlocks sum_blocks = {};
};

// `host` is the world group over MPI or TCP; the result owns it and uses it for calls on CPU
// streams, barrier() and NCCL's setup. `device` is this rank's GPU and must outlive the group. If
// ranks share a GPU, sets the environment that NCCL needs for it. Collective. One rank: returns
// `host` itself. Raises ExitCode::config in a program without the CUDA back end.
[[nodiscard]] std::unique_ptr<Communicator> make_nccl_world(std::unique_ptr<Communicator> host,
                                                            Device& device, NcclOptions options);

// Where ranks meet: a root takes a connection of each of its ranks, one after the other, and beyond
// 256 NCCL delays them (bootstrap.cc, NCCL_UID_STAGGER_THRESHOLD). Roots divide the ranks evenly.
[[nodiscard]] int nccl_roots(int ranks, int ranks_per_root = NcclOptions{}.ranks_per_root);

// "2.28.9"; empty in a program without CUDA.
[[nodiscard]] std::string nccl_library_version();

// Whether graphs of `device` can hold collectives. Tries to record one on a group of its own,
// because NCCL cannot use a group after a failed recording. Logs the reason if not. Collective over
// `world`, a group of GPUs, with the same result on all ranks; blocks the host.
[[nodiscard]] bool can_record_collectives(Communicator& world, Device& device);

}  // namespace trireme
