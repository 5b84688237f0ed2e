// SPDX-License-Identifier: Apache-2.0
// A call as a value small enough for a stream task, and the argument checks that all back ends
// share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/device/device.h"

namespace trireme {

class Communicator;

enum class Verb : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  send,
  recv
};
inline constexpr std::size_t verb_count = 7;
[[nodiscard]] std::string_view name_of(Verb verb);

enum class ReduceOp : std::uint8_t { sum, max, min };
[[nodiscard]] std::string_view name_of(ReduceOp op);

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
