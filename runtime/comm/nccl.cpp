// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/nccl.h"

#include <algorithm>

#include "runtime/base/log.h"
#include "runtime/comm/comm_label.h"
#include "runtime/comm/host_stream.h"
#include "runtime/device/cuda_slot.h"

namespace trireme {

std::unique_ptr<Communicator> make_nccl_world(std::unique_ptr<Communicator> host, Device& device,
                                              NcclOptions options) {
  const auto make = cuda_slot<&make_nccl_world>;
  if (make == nullptr)
    fail(ExitCode::config, "NCCL is part of the cuda backend, which this build lacks");
  return make(std::move(host), device, std::move(options));
}

int nccl_roots(int ranks, int ranks_per_root) {
  return std::max(1, (ranks + ranks_per_root - 1) / ranks_per_root);
}

std::string nccl_library_version() {
  const auto version = cuda_slot<&nccl_library_version>;
  return version != nullptr ? version() : std::string();
}

namespace {

// The recording is never replayed, because another rank's may have failed.
bool records_here(Communicator& trial, Device& device) {
  const auto stream = device.make_stream(StreamKind::comm);
  const Buffer memory(device, sizeof(float), MemoryKind::device);
  const Tensor value = memory.view(DType::f32, Shape{1});
  const ScopedCommLabel label("whether calls can be recorded");
  device.fill_zero(*stream, value.data, value.bytes());
  const auto call = [&] { trial.all_reduce(*stream, value, value, ReduceOp::max); };
  call();  // connects
  stream->synchronize();
  try {
    static_cast<void>(device.capture(*stream, call));
    return true;
  } catch (const Error& error) {
    log::get("comm").warn("collectives cannot be recorded: {}", error.what());
    return false;
  }
}

}  // namespace

bool can_record_collectives(Communicator& world, Device& device) {
  const auto trial = world.split(0, world.rank(), world.name() + ".recording");
  auto agreed = static_cast<std::int32_t>(records_here(*trial, device));
  const HostStream host;
  const Tensor all{reinterpret_cast<std::byte*>(&agreed), DType::i32, Shape{1}};
  world.all_reduce(*host, all, all, ReduceOp::min);
  return agreed != 0;
}

}  // namespace trireme
