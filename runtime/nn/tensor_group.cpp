// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/tensor_group.h"

namespace trireme {

TensorGroup::TensorGroup(Device& device, Communicator& group, Stream& comm, StallClock* stalls)
    : group_(group),
      comm_(comm),
      stalls_(stalls),
      ready_event_(device.make_event()),
      done_event_(device.make_event()) {}

void TensorGroup::all_reduce(Stream& compute, const Tensor& data, ReduceOp op) const {
  if (size() == 1) return;
  begin(compute);
  group_.all_reduce(comm_, data, data, op);
  finish(compute);
}

void TensorGroup::reduce_scatter(Stream& compute, const Tensor& whole, const Tensor& slice) const {
  start_reduce_scatter(compute, whole, slice);
  finish(compute);
}

void TensorGroup::all_gather(Stream& compute, const Tensor& slice, const Tensor& whole) const {
  start_all_gather(compute, slice, whole);
  finish(compute);
}

void TensorGroup::all_to_all(Stream& compute, const Tensor& in, const Tensor& out) const {
  begin(compute);
  group_.all_to_all(comm_, in, out);
  finish(compute);
}

void TensorGroup::start_all_reduce(Stream& compute, const Tensor& data) const {
  if (size() == 1) return;
  begin(compute);
  group_.all_reduce(comm_, data, data, ReduceOp::sum);
}

void TensorGroup::start_reduce_scatter(Stream& compute, const Tensor& whole,
                                       const Tensor& slice) const {
  begin(compute);
  group_.reduce_scatter(comm_, whole, slice, ReduceOp::sum);
}

void TensorGroup::start_all_gather(Stream& compute, const Tensor& slice,
                                   const Tensor& whole) const {
  begin(compute);
  group_.all_gather(comm_, slice, whole);
}

void TensorGroup::start_exchange(Stream& compute, std::span<const Message> messages) const {
  if (messages.empty()) return;
  begin(compute);
  group_.group_begin();
  for (const Message& message : messages) {
    if (!message.send.empty()) group_.send(comm_, message.send, message.peer);
    if (!message.receive.empty()) group_.recv(comm_, message.receive, message.peer);
  }
  group_.group_end(comm_);
}

void TensorGroup::begin(Stream& compute) const {
  compute.record(*ready_event_);
  comm_.wait(*ready_event_);
}

void TensorGroup::finish(Stream& compute, StallCause cause) const {
  comm_.record(*done_event_);
  wait_for_comm(compute, *done_event_, stalls_, cause);
}

}  // namespace trireme
