// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/nccl/nccl_communicator.h"

#include <algorithm>

#include "runtime/comm/host_stream.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/device/cuda_slot.h"

namespace trireme {

NcclCommunicator::NcclCommunicator(std::unique_ptr<Communicator> host,
                                   std::unique_ptr<NcclHandle> handle,
                                   std::shared_ptr<const NcclOptions> options)
    : Communicator(host->rank(), host->size(), host->name(), counters_of(*host)),
      host_(std::move(host)),
      handle_(std::move(handle)),
      options_(std::move(options)),
      calls_(*handle_, rank(), size(), options_->sum_blocks) {}

void NcclCommunicator::submit(Stream& stream, const Call& call) {
  if (is_host_stream(stream)) {
    if (starts_group()) host_->group_begin();
    return host_->issue(stream, call);
  }
  calls_.add(call);
  counters().add_call(call.verb, call.bytes());
  if (!in_group()) calls_.run(stream);
}

void NcclCommunicator::submit_group_end(Stream& stream) {
  if (is_host_stream(stream)) return host_->group_end(stream);
  calls_.run(stream);
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key, std::string name,
                                                      CommRole role) {
  TRIREME_EXPECTS(color >= 0, "group {}: split with color {}", this->name(), color);
  auto host = host_->split(color, key, name);
  const bool alone = host->size() == 1;
  auto part =
      handle_->split(alone ? std::nullopt : std::optional(color), key, std::move(name), role);
  if (alone) return host;
  return std::make_unique<NcclCommunicator>(std::move(host), std::move(part), options_);
}

std::unique_ptr<Communicator> NcclCommunicator::host_sibling(std::string name) {
  return host_->host_sibling(std::move(name));
}

namespace {

// An older library may lack functions and configuration fields.
void check_library() {
  int version = 0;
  TRIREME_NCCL(ncclGetVersion(&version));
  if (version / 100 >= NCCL_VERSION_CODE / 100) return;
  fail(ExitCode::config,
       "NCCL {} was found, but this program was built with {}.{}; put that version or a newer one "
       "first in LD_LIBRARY_PATH",
       nccl_library_version(), NCCL_MAJOR, NCCL_MINOR);
}

// One from the first rank of each root's (bootstrap.cc, firstRankFromRoot).
std::vector<ncclUniqueId> agree_on_ids(Communicator& group, int ranks_per_root) {
  std::vector<ncclUniqueId> ids(static_cast<std::size_t>(nccl_roots(group.size(), ranks_per_root)));
  const HostStream stream;
  const int roots = static_cast<int>(ids.size());
  for (int root = 0; root < roots; ++root) {
    ncclUniqueId& id = ids[static_cast<std::size_t>(root)];
    const int first = root * (group.size() / roots) + std::min(root, group.size() % roots);
    if (group.rank() == first) TRIREME_NCCL(ncclGetUniqueId(&id));
    group.broadcast(*stream,
                    {reinterpret_cast<std::byte*>(&id), DType::u8,
                     Shape{static_cast<std::int64_t>(sizeof(id))}},
                    first);
  }
  return ids;
}

}  // namespace

namespace cuda {

std::unique_ptr<Communicator> make_nccl_world(std::unique_ptr<Communicator> host, Device& device,
                                              NcclOptions options) {
  TRIREME_EXPECTS(device.type() == DeviceType::cuda, "NCCL on a {} device", name_of(device.type()));
  if (host->size() == 1) return host;
  if (options.repeatable) require_repeatable_sums();
  check_library();
  // On a temporary group, because calls of `host` itself are the caller's to count.
  const auto setup = host->host_sibling(host->name() + ".setup");
  check_same_on_all_ranks(*setup, "the NCCL library", nccl_library_version());
  if (host->rank() == 0) warn_of_cta_variables();
  prepare_for_shared_gpus(*setup, device, options.share_gpus);
  std::vector<ncclUniqueId> ids = agree_on_ids(*setup, options.ranks_per_root);
  const auto shared = std::make_shared<const NcclOptions>(std::move(options));
  auto handle = std::make_unique<NcclHandle>(ids, host->size(), host->rank(), host->name(), shared);
  return std::make_unique<NcclCommunicator>(std::move(host), std::move(handle), shared);
}

std::string nccl_library_version() {
  int version = 0;
  TRIREME_NCCL(ncclGetVersion(&version));
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

TRIREME_CUDA_PROVIDES(trireme, make_nccl_world);
TRIREME_CUDA_PROVIDES(trireme, nccl_library_version);

}  // namespace cuda

}  // namespace trireme
