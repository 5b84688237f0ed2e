// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/step/step_exchange.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "runtime/comm/comm_label.h"

namespace trireme {
namespace {

struct Note {
  RankStep times;
  std::int64_t timed;
  StepFlags flags;
};
static_assert(std::is_trivially_copyable_v<Note>);

std::size_t bytes_of(int notes) {
  return static_cast<std::size_t>(notes) * sizeof(Note);
}

Tensor view(const Buffer& buffer) {
  return buffer.view(DType::u8, Shape{static_cast<std::int64_t>(buffer.bytes())});
}

}  // namespace

StepExchange::StepExchange(Device& device, const ProcessMesh& mesh)
    : device_(device),
      mesh_(mesh),
      staged_(device, bytes_of(1), MemoryKind::host),
      mine_(device, bytes_of(1), MemoryKind::device),
      group_(device, bytes_of(mesh.shape().data), MemoryKind::device),
      all_(device, bytes_of(mesh.shape().size()), MemoryKind::device),
      host_(device, bytes_of(mesh.shape().size()), MemoryKind::host),
      times_(static_cast<std::size_t>(mesh.shape().size())) {}

void StepExchange::stage(const StepFlags& flags, std::int64_t timed, const RankStep& times) {
  const Note note{.times = times, .timed = timed, .flags = flags};
  std::memcpy(staged_.data(), &note, sizeof(note));
}

// First over the ranks with the same part of the model, then over the parts.
void StepExchange::publish(Stream& comm) {
  const ScopedCommLabel label("requests and times");
  device_.copy(comm, mine_.data(), staged_.data(), mine_.bytes());
  mesh_.data().all_gather(comm, view(mine_), view(group_));
  mesh_.model().all_gather(comm, view(group_), view(all_));
  device_.copy(comm, host_.data(), all_.data(), host_.bytes());
}

void StepExchange::read() {
  const MeshShape& shape = mesh_.shape();
  const auto note_at = [&](int index) {
    Note note;
    std::memcpy(&note, host_.data() + bytes_of(index), sizeof(note));
    return note;
  };
  agreed_ = note_at(0).flags;
  timed_ = note_at(0).timed;
  for (int rank = 0; rank < shape.size(); ++rank) {
    const MeshCoordinates at = coordinates_of(shape, rank);
    const Note note = note_at((at.pipeline * shape.tensor + at.tensor) * shape.data + at.data);
    times_[static_cast<std::size_t>(rank)] = note.times;
    for (std::size_t flag = 0; flag < agreed_.values.size(); ++flag)
      agreed_.values[flag] = std::max(agreed_.values[flag], note.flags.values[flag]);
  }
}

}  // namespace trireme
