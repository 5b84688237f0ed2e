// SPDX-License-Identifier: Apache-2.0
// Sums f32 values over a group with 16-bit messages: half the bytes of the group's own collectives.
// Every rank rounds its values once; the owner of a slice adds all ranks' values in f32, in the
// tree order of reproducible collectives (ops/update/block_sum.h) on every back end. If all ranks
// want the sum it is rounded once more, to the same bits on each.
#pragma once

#include "runtime/comm/communicator.h"

namespace trireme {

class RoundedSum {
 public:
  // For calls of up to `largest` elements. `group` must outlive this; all calls use one stream.
  RoundedSum(Device& device, Communicator& group, DType dtype, std::int64_t largest);

  // Sums into `values` on every rank.
  void all_reduce(Stream& stream, const Tensor& values) const;
  // `in` has one slice per rank; out = the sum of this rank's, and may be that slice of `in`.
  void reduce_scatter(Stream& stream, const Tensor& in, const Tensor& out) const;

 private:
  // Slice j of all ranks' rounded values, on rank j: (size, slice).
  [[nodiscard]] Tensor exchanged(Stream& stream, const Tensor& values, std::int64_t slice) const;

  Device& device_;
  Communicator& group_;
  DType dtype_;
  Buffer rounded_, received_;
};

}  // namespace trireme
