// SPDX-License-Identifier: Apache-2.0
// Collectives of tensor-parallel layers (Shoeybi et al., Megatron-LM, 2019; sequence parallel:
// Korthikanti et al., 2022), and of optimizers over any group. Free on one rank. Sums follow the
// tree over ranks of communicator.h; if each rank first sums its own blocks as a tree, the whole
// sum is one tree over blocks.
#pragma once

#include <memory>
#include <span>

#include "runtime/comm/communicator.h"
#include "runtime/comm/timing/stall_clock.h"
#include "runtime/nn/param.h"

namespace trireme {

class TensorGroup {
 public:
  // `group`, `comm` and `stalls` must outlive this. `comm` runs collectives that overlap
  // computation; `stalls` times waits for them, null: not timed.
  TensorGroup(Device& device, Communicator& group, Stream& comm, StallClock* stalls = nullptr);

  [[nodiscard]] int rank() const { return group_.rank(); }
  [[nodiscard]] int size() const { return group_.size(); }

  // In place; later work on `compute` sees the result.
  void all_reduce(Stream& compute, const Tensor& data, ReduceOp op = ReduceOp::sum) const;
  // `whole` holds size() equal slices of rows; `slice` is this rank's.
  void reduce_scatter(Stream& compute, const Tensor& whole, const Tensor& slice) const;
  void all_gather(Stream& compute, const Tensor& slice, const Tensor& whole) const;
  // Slice i of `in` to rank i; slice i of `out` is what rank i sent.
  void all_to_all(Stream& compute, const Tensor& in, const Tensor& out) const;

  // The same, started on the comm stream. Work enqueued on `compute` before finish() overlaps it
  // and must not touch the tensors. Several may be started, in order, before one finish() for all.
  void start_all_reduce(Stream& compute, const Tensor& data) const;
  void start_reduce_scatter(Stream& compute, const Tensor& whole, const Tensor& slice) const;
  void start_all_gather(Stream& compute, const Tensor& slice, const Tensor& whole) const;
  // Messages to and from other ranks, all at once. An empty tensor: none in that direction.
  struct Message {
    int peer = 0;
    Tensor send{}, receive{};
  };
  void start_exchange(Stream& compute, std::span<const Message> messages) const;
  void finish(Stream& compute, StallCause cause = StallCause::sum) const;

 private:
  void begin(Stream& compute) const;

  Communicator& group_;
  Stream& comm_;
  StallClock* stalls_;
  std::unique_ptr<Event> ready_event_, done_event_;
};

}  // namespace trireme
