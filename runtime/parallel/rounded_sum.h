// SPDX-License-Identifier: Apache-2.0
// Sums of f32 values over a group whose messages have 16 bits: half the bytes of the group's own
// collectives. Every rank rounds its values once; whoever owns a slice adds the ranks' in f32, as
// the tree of the reproducible collectives (ops/update/block_sum.h) on every back end; where all
// ranks want the sum it is rounded once more, to the same bits on each.
#pragma once

#include "runtime/comm/communicator.h"

namespace trireme {

class RoundedSum {
 public:
  // Of up to `largest` elements a call. `group` must outlive this; calls go to its one stream.
  RoundedSum(Device& device, Communicator& group, DType dtype, std::int64_t largest);

  // The sum into `values` of every rank.
  void all_reduce(Stream& stream, const Tensor& values) const;
  // `in` has a slice for each rank; out = the sum of the own one, which may be that of `in`.
  void reduce_scatter(Stream& stream, const Tensor& in, const Tensor& out) const;

 private:
  // Slice j of the ranks' rounded values, on rank j: (size, slice).
  [[nodiscard]] Tensor exchanged(Stream& stream, const Tensor& values, std::int64_t slice) const;

  Device& device_;
  Communicator& group_;
  DType dtype_;
  Buffer rounded_, received_;
};

}  // namespace trireme
