// SPDX-License-Identifier: Apache-2.0
// Private to the emulator: the work of an emulated NCCL kernel, by MPI messages.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulation/include/nccl.h"

namespace trireme::emulated {

struct NcclOp {
  enum class Kind { all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, send, recv };
  Kind kind;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t op = ncclSum;
  int peer = -1;
  cudaStream_t stream = nullptr;
};

// Per communicator; work on streams keeps it beyond the communicator's end.
struct NcclTransport {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  std::atomic<bool> aborted = false;
  std::atomic<int> work = 0;  // on streams and not over, or in graphs
  std::atomic<int> error = ncclSuccess;
};

[[nodiscard]] std::size_t nccl_size_of(ncclDataType_t type);
// Runs a group. Returns when it has finished or the communicator is aborted; after a failure, only
// then, like a kernel without peers.
void run_nccl_kernel(NcclTransport& transport, const std::string& group,
                     const std::vector<NcclOp>& ops);
void wait_for_abort(const NcclTransport& transport);

}  // namespace trireme::emulated
