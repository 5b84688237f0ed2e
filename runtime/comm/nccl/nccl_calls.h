// SPDX-License-Identifier: Apache-2.0
// Private to this folder: maps a group's calls to NCCL calls on a stream. Calls that NCCL lacks are
// composed:
//   a sum in the order of reduce.h   the parts of a slice from all ranks, one after the other; the
//                                    sum of these blocks; the sums to all ranks: as in
//                                    host_engine.h
//   in-place forms at the start of a tensor, which NCCL lacks: a copy before or after
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "runtime/comm/nccl/nccl_handle.h"

namespace trireme {

class NcclCalls {
 public:
  // All arguments must outlive this.
  NcclCalls(NcclHandle& handle, int rank, int size, const SumBlocks& sum_blocks);

  // Raises an error for a dtype that NCCL cannot reduce.
  void add(const Call& call);
  // Enqueues the calls added since the last run, in one NCCL group.
  void run(Stream& stream);

 private:
  enum class Way : std::uint8_t {
    direct,        // one NCCL call
    gather_first,  // all_gather whose input is at the start of the output
    copy_after,    // reduce_scatter to the start of its input, through scratch memory
    ordered        // a sum in the order of reduce.h
  };
  struct Work {
    Call call;
    Way way = Way::direct;
    std::byte* scratch = nullptr;
    // Ordered sums: elements [begin, begin + count) of the call, or of each slice of a
    // reduce_scatter, are in flight; rank r sums `slice` of them, or fewer at the end.
    std::int64_t begin = 0;
    std::int64_t count = 0;
    std::int64_t slice = 0;
  };
  struct Range {
    std::int64_t begin;
    std::int64_t count;
  };

  [[nodiscard]] Way way_of(const Call& call) const;
  void place_scratch(Device& device);
  [[nodiscard]] std::size_t scratch_bytes(const Work& work) const;
  [[nodiscard]] bool advance(Work& work) const;
  [[nodiscard]] Range part_of(const Work& work, int owner) const;
  [[nodiscard]] bool gathers_whole(const Work& work) const;

  void copy_before(Stream& stream, const Work& work) const;
  void post(ncclComm_t comm, cudaStream_t stream, const Work& work) const;
  void post_direct(ncclComm_t comm, cudaStream_t stream, const Call& call, std::byte* out) const;
  void post_parts(ncclComm_t comm, cudaStream_t stream, const Work& work) const;
  void sum(Stream& stream, const Work& work) const;
  void post_sums(ncclComm_t comm, cudaStream_t stream, const Work& work) const;
  void run_ordered(Stream& stream);

  NcclHandle& handle_;
  int rank_;
  int size_;
  const SumBlocks& sum_blocks_;
  std::vector<Work> works_;
  std::vector<Work> ordered_;  // those with rounds left
  // The newest is in use. Older ones are kept: freeing device memory may wait for peers.
  std::vector<Buffer> scratch_;
};

}  // namespace trireme
