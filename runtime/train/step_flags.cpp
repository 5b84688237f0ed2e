// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/step_flags.h"

#include <cstring>

#include "runtime/comm/comm_label.h"

namespace trireme {
namespace {

constexpr std::size_t bytes = sizeof(StepFlags::values);

}  // namespace

FlagExchange::FlagExchange(Device& device, const ProcessMesh& mesh)
    : device_(device),
      mesh_(mesh),
      mine_(device, bytes, MemoryKind::host),
      flags_(device, bytes, MemoryKind::device),
      agreed_(device, bytes, MemoryKind::host),
      there_(device.make_event()) {}

void FlagExchange::stage(const StepFlags& flags) {
  std::memcpy(mine_.data(), flags.values.data(), bytes);
}

// Over the ranks that hold the same part of the model, then over the parts.
void FlagExchange::publish(Stream& comm) {
  const Tensor flags = flags_.view(DType::i32, Shape{StepFlags::count});
  const ScopedCommLabel label("requests");
  device_.copy(comm, flags.data, mine_.data(), bytes);
  for (Communicator* const group : {&mesh_.data(), &mesh_.model()}) {
    if (group->size() > 1) group->all_reduce(comm, flags, flags, ReduceOp::max);
  }
  device_.copy(comm, agreed_.data(), flags.data, bytes);
  comm.record(*there_);
}

StepFlags FlagExchange::read() const {
  StepFlags flags;
  std::memcpy(flags.values.data(), agreed_.data(), bytes);
  return flags;
}

}  // namespace trireme
