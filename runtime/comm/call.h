// SPDX-License-Identifier: Apache-2.0
// Private to this room: a call as a value small enough for a stream task, and the argument checks
// that all back ends share.
#pragma once

#include <string>

#include "runtime/comm/communicator.h"

namespace trireme {

struct Call {
  Verb verb = Verb::all_reduce;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int doubled = 0;                // ranks that have two leaves in a sum
  int peer = -1;                  // root, destination or source
  const std::byte* in = nullptr;  // null for recv
  std::byte* out = nullptr;       // null for send
  std::int64_t in_count = 0;
  std::int64_t out_count = 0;

  // The tensor that VerbStats counts.
  [[nodiscard]] std::int64_t count() const { return in_count > out_count ? in_count : out_count; }
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(count()) * size_of(dtype);
  }
  // For messages: "all_reduce(f32, count 100, sum)"
  [[nodiscard]] std::string to_string() const;
};

[[nodiscard]] std::string_view name_of(ReduceOp op);

// These check counts, dtypes and the peer against `comm` and return the call. They raise a contract
// error naming the group and both tensors.
[[nodiscard]] Call make_reduce_call(const Communicator& comm, Verb verb, const Tensor& in,
                                    const Tensor& out, ReduceOp op);
[[nodiscard]] Call make_exchange_call(const Communicator& comm, Verb verb, const Tensor& in,
                                      const Tensor& out);
// broadcast, send, recv
[[nodiscard]] Call make_peer_call(const Communicator& comm, Verb verb, const Tensor& data,
                                  int peer);

}  // namespace trireme
