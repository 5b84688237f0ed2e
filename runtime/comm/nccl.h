// SPDX-License-Identifier: Apache-2.0
// The NCCL back end. No nccl.h here.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/comm/communicator.h"

namespace trireme {

// out = the blocks of `blocks` (n, out.count()) summed in the order of reduce.h, of which the first
// `doubled` count for two each: ops::sum_blocks, which this room may not call by itself.
using SumBlocks = std::function<void(Stream& stream, const Tensor& out, const Tensor& blocks,
                                     std::int64_t doubled)>;

struct NcclOptions {
  // How long the host waits for NCCL to connect, split or start a call; 0: for ever. Calls that are
  // under way on the GPU are watched by Watched.
  double deadline_seconds = 0;
  // Thread blocks per call, and so multiprocessors; 0: NCCL's choice.
  int min_ctas = 0;
  int max_ctas = 0;
  // "Socket", "IB" or a plug-in's name; empty: NCCL's choice.
  std::string net = {};
  // The same bits from run to run: without NVLink SHARP, whose sums depend on arrival
  // (NVIDIA/nccl#1497). An environment that asks for it all the same raises ExitCode::config.
  bool repeatable = false;
  // Whether several ranks may run on one GPU; else that raises ExitCode::config.
  bool share_gpus = true;
  // Set: sums of floating-point tensors follow the tree over ranks of reduce.h, as over MPI, and
  // are made with this. Empty: NCCL's own order, which depends on its choice of algorithm.
  SumBlocks sum_blocks = {};
};

// `host` is the world group over MPI or TCP; the result owns it and gives it the calls on CPU
// streams, barrier() and the messages that set NCCL up. `device` is this rank's GPU and must
// outlive the group. Where ranks share a GPU, the environment that NCCL needs for it is set.
// Collective. One rank: gives back `host` itself. Raises ExitCode::config in a program without
// the CUDA back end, which has no such device either.
[[nodiscard]] std::unique_ptr<Communicator> make_nccl_world(std::unique_ptr<Communicator> host,
                                                            Device& device, NcclOptions options);

// "2.28.9"; empty in a program without the CUDA back end.
[[nodiscard]] std::string nccl_library_version();

}  // namespace trireme
