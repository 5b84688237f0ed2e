// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/nccl/nccl_communicator.h"

#include "runtime/comm/host_stream.h"
#include "runtime/comm/nccl/nccl_environment.h"
#include "runtime/comm/same_on_all_ranks.h"

namespace trireme {

NcclCommunicator::NcclCommunicator(std::unique_ptr<Communicator> host,
                                   std::unique_ptr<NcclHandle> handle,
                                   std::shared_ptr<const NcclOptions> options)
    : Communicator(host->rank(), host->size(), host->name(), counters_of(*host)),
      host_(std::move(host)),
      handle_(std::move(handle)),
      options_(std::move(options)),
      calls_(*handle_, rank(), size(), options_->sum_blocks) {}

void NcclCommunicator::submit(Stream& stream, const Call& call, const Tensor& in,
                              const Tensor& out) {
  if (!in_group_) {
    if (is_host_stream(stream)) return issue(*host_, stream, call, in, out);
    refuse_message_to_self(*this, call);
  }
  TRIREME_EXPECTS(!in_group_ || group_stream_ == nullptr || group_stream_ == &stream,
                  "the calls between group_begin and group_end of group {} use several streams",
                  name());
  if (is_host_stream(stream)) {
    if (group_stream_ == nullptr) host_->group_begin();
    group_stream_ = &stream;
    return issue(*host_, stream, call, in, out);
  }
  calls_.add(call);
  counters().add_call(call.verb, call.bytes());
  group_stream_ = &stream;
  if (!in_group_) calls_.run(stream);
}

void NcclCommunicator::all_reduce(Stream& stream, const Tensor& in, const Tensor& out,
                                  ReduceOp op) {
  submit(stream, make_reduce_call(*this, Verb::all_reduce, in, out, op), in, out);
}

void NcclCommunicator::reduce_scatter(Stream& stream, const Tensor& in, const Tensor& out,
                                      ReduceOp op) {
  submit(stream, make_reduce_call(*this, Verb::reduce_scatter, in, out, op), in, out);
}

void NcclCommunicator::all_gather(Stream& stream, const Tensor& in, const Tensor& out) {
  submit(stream, make_exchange_call(*this, Verb::all_gather, in, out), in, out);
}

void NcclCommunicator::all_to_all(Stream& stream, const Tensor& in, const Tensor& out) {
  submit(stream, make_exchange_call(*this, Verb::all_to_all, in, out), in, out);
}

void NcclCommunicator::broadcast(Stream& stream, const Tensor& data, int root) {
  submit(stream, make_peer_call(*this, Verb::broadcast, data, root), data, data);
}

void NcclCommunicator::send(Stream& stream, const Tensor& data, int to) {
  submit(stream, make_peer_call(*this, Verb::send, data, to), data, data);
}

void NcclCommunicator::recv(Stream& stream, const Tensor& data, int from) {
  submit(stream, make_peer_call(*this, Verb::recv, data, from), data, data);
}

void NcclCommunicator::group_begin() {
  TRIREME_EXPECTS(!in_group_, "group {}: group_begin inside a group", name());
  in_group_ = true;
  group_stream_ = nullptr;
}

void NcclCommunicator::group_end(Stream& stream) {
  TRIREME_EXPECTS(in_group_, "group {}: group_end without group_begin", name());
  TRIREME_EXPECTS(group_stream_ == nullptr || group_stream_ == &stream,
                  "group_end of group {} names another stream than its calls", name());
  in_group_ = false;
  if (group_stream_ == nullptr) return;
  if (is_host_stream(stream)) return host_->group_end(stream);
  calls_.run(stream);
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key, std::string name) {
  TRIREME_EXPECTS(color >= 0, "group {}: split with color {}", this->name(), color);
  auto host = host_->split(color, key, name);
  const bool alone = host->size() == 1;
  auto part = handle_->split(alone ? std::nullopt : std::optional(color), key, std::move(name));
  if (alone) return host;
  return std::make_unique<NcclCommunicator>(std::move(host), std::move(part), options_);
}

std::unique_ptr<Communicator> NcclCommunicator::host_sibling(std::string name) {
  return host_->host_sibling(std::move(name));
}

namespace {

// An older library may lack functions and fields of its configuration.
void check_library() {
  int version = 0;
  TRIREME_NCCL(ncclGetVersion(&version));
  if (version / 100 >= NCCL_VERSION_CODE / 100) return;
  fail(ExitCode::config,
       "NCCL {} was found, but this build was made with {}.{}; put that or a newer one first in "
       "LD_LIBRARY_PATH",
       nccl_library_version(), NCCL_MAJOR, NCCL_MINOR);
}

}  // namespace

std::unique_ptr<Communicator> make_nccl_world(std::unique_ptr<Communicator> host, Device& device,
                                              NcclOptions options) {
  TRIREME_EXPECTS(device.type() == DeviceType::cuda, "NCCL on a {} device", name_of(device.type()));
  if (host->size() == 1) return host;
  check_library();
  // Over a group that goes away again: the calls of `host` itself are the caller's to count.
  const auto setup = host->host_sibling(host->name() + ".setup");
  check_same_on_all_ranks(*setup, "the NCCL library", nccl_library_version());
  prepare_for_shared_gpus(*setup, device);
  ncclUniqueId id{};
  if (host->rank() == 0) TRIREME_NCCL(ncclGetUniqueId(&id));
  const HostStream stream;
  setup->broadcast(
      *stream,
      {reinterpret_cast<std::byte*>(&id), DType::u8, Shape{static_cast<std::int64_t>(sizeof(id))}},
      0);
  const auto shared = std::make_shared<const NcclOptions>(std::move(options));
  auto handle = std::make_unique<NcclHandle>(id, host->size(), host->rank(), host->name(), shared);
  return std::make_unique<NcclCommunicator>(std::move(host), std::move(handle), shared);
}

std::string nccl_library_version() {
  int version = 0;
  TRIREME_NCCL(ncclGetVersion(&version));
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace trireme
