// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/call.h"

#include <array>

#include "runtime/comm/communicator.h"

namespace trireme {
namespace {

void check_same_dtype(const Communicator& comm, Verb verb, const Tensor& in, const Tensor& out) {
  TRIREME_EXPECTS(in.dtype == out.dtype, "{} in group {}: input has dtype {}, output {}",
                  name_of(verb), comm.name(), name_of(in.dtype), name_of(out.dtype));
}

void check_counts(const Communicator& comm, Verb verb, const Tensor& in, const Tensor& out,
                  std::int64_t in_factor, std::int64_t out_factor) {
  TRIREME_EXPECTS(in.count() * in_factor == out.count() * out_factor,
                  "{} in group {} of {} ranks: input {}, output {}", name_of(verb), comm.name(),
                  comm.size(), in.shape.to_string(), out.shape.to_string());
}

Call make_call(Verb verb, const Tensor& in, const Tensor& out) {
  Call call;
  call.verb = verb;
  call.dtype = in.dtype;
  call.in = in.data;
  call.out = out.data;
  call.in_count = in.count();
  call.out_count = out.count();
  return call;
}

}  // namespace

std::string_view name_of(Verb verb) {
  constexpr std::array<std::string_view, verb_count> names = {
      "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "send", "recv"};
  return names[static_cast<std::size_t>(verb)];
}

std::string_view name_of(ReduceOp op) {
  constexpr std::array<std::string_view, 3> names = {"sum", "max", "min"};
  return names[static_cast<std::size_t>(op)];
}

std::string Call::to_string() const {
  std::string more;
  if (verb == Verb::all_reduce || verb == Verb::reduce_scatter)
    more =
        fmt::format(", {}{}", name_of(op), doubled > 0 ? fmt::format(", {} doubled", doubled) : "");
  else if (peer >= 0)
    more = fmt::format(", {} {}",
                       verb == Verb::broadcast ? "root"
                       : verb == Verb::send    ? "to"
                                               : "from",
                       peer);
  return fmt::format("{}({}, count {}{})", name_of(verb), name_of(dtype), count(), more);
}

Call make_reduce_call(const Communicator& comm, Verb verb, const Tensor& in, const Tensor& out,
                      ReduceOp op) {
  check_same_dtype(comm, verb, in, out);
  check_counts(comm, verb, in, out, 1, verb == Verb::reduce_scatter ? comm.size() : 1);
  Call call = make_call(verb, in, out);
  call.op = op;
  call.doubled = comm.doubled();
  return call;
}

Call make_exchange_call(const Communicator& comm, Verb verb, const Tensor& in, const Tensor& out) {
  check_same_dtype(comm, verb, in, out);
  check_counts(comm, verb, in, out, verb == Verb::all_gather ? comm.size() : 1, 1);
  TRIREME_EXPECTS(verb != Verb::all_to_all || in.count() % comm.size() == 0,
                  "all_to_all in group {}: {} does not split into {} equal slices", comm.name(),
                  in.shape.to_string(), comm.size());
  TRIREME_EXPECTS(verb != Verb::all_to_all || in.data != out.data || in.count() == 0,
                  "all_to_all in group {} cannot work in place", comm.name());
  return make_call(verb, in, out);
}

Call make_peer_call(const Communicator& comm, Verb verb, const Tensor& data, int peer) {
  TRIREME_EXPECTS(peer >= 0 && peer < comm.size(), "{} in group {}: no rank {} among {}",
                  name_of(verb), comm.name(), peer, comm.size());
  Call call = make_call(verb, data, data);
  call.peer = peer;
  if (verb == Verb::send) call.out = nullptr;
  if (verb == Verb::recv) call.in = nullptr;
  return call;
}

}  // namespace trireme
