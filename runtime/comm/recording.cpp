// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/recording.h"

#include "runtime/base/log.h"
#include "runtime/comm/comm_label.h"
#include "runtime/comm/host_stream.h"

namespace trireme {
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
