// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/pipeline_links.h"

#include <fmt/core.h>

#include <algorithm>

#include "runtime/comm/comm_label.h"

namespace trireme {
namespace {

// Links around the ring of stages are coloured so that the two at a stage differ: then two streams
// never share a group. A ring of odd length needs a third colour for the last link.
std::size_t colour_of_link(int from, int stages) {
  return static_cast<std::size_t>(from == stages - 1 && stages % 2 == 1 ? 2 : from % 2);
}

constexpr bool shows_gradient(ActionKind transfer) {
  return transfer == ActionKind::send_backward || transfer == ActionKind::recv_backward;
}

constexpr std::size_t index_of(ActionKind transfer) {
  return static_cast<std::size_t>(transfer) - static_cast<std::size_t>(ActionKind::send_forward);
}

}  // namespace

PipelineLinks::PipelineLinks(Device& device, Communicator& pipeline, const ScheduleShape& shape)
    : shape_(shape), stage_(pipeline.rank()) {
  TRIREME_EXPECTS(pipeline.size() == shape.stages, "{} stages on {} ranks", shape.stages,
                  pipeline.size());
  if (shape.stages == 1) return;
  const bool ring = shape.chunks > 1;
  const bool has_next = ring || stage_ + 1 < shape.stages, has_previous = ring || stage_ > 0;
  // Made consecutively and before NCCL makes its streams: adjacent streams are in different
  // hardware queues of the GPU.
  for (const ActionKind transfer : {ActionKind::send_forward, ActionKind::recv_backward,
                                    ActionKind::recv_forward, ActionKind::send_backward}) {
    const bool onward =
        transfer == ActionKind::send_forward || transfer == ActionKind::recv_backward;
    if (onward ? has_next : has_previous)
      channels_[index_of(transfer)].stream = device.make_stream(StreamKind::link);
  }
  const int links = ring ? shape.stages : shape.stages - 1;
  const auto is_used = [&](std::size_t colour) {
    for (int from = 0; from < links; ++from)
      if (colour_of_link(from, shape.stages) == colour) return true;
    return false;
  };
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (!is_used(i % 3)) continue;  // an NCCL communicator has memory and a thread
    groups_[i] = pipeline.split(
        0, pipeline.rank(),
        fmt::format("{}.{}{}", pipeline.name(), i < 3 ? "forward" : "backward", i % 3),
        CommRole::link);
  }
  const int before = (stage_ + shape.stages - 1) % shape.stages;
  const std::size_t onward = colour_of_link(stage_, shape.stages);
  const std::size_t inward = colour_of_link(before, shape.stages);
  const auto open = [&](ActionKind transfer, std::size_t group) {
    channels_[index_of(transfer)].group = groups_[group].get();
  };
  if (has_next) {
    open(ActionKind::send_forward, onward);
    open(ActionKind::recv_backward, 3 + onward);
  }
  if (has_previous) {
    open(ActionKind::recv_forward, inward);
    open(ActionKind::send_backward, 3 + inward);
  }
  if (device.type() == DeviceType::cuda) connect(device);
}

// NCCL connects two ranks at their first message, and blocks both hosts until both have posted it.
// A schedule posts receives long before the other stage sends. A stage has at most one link per
// colour, so stages that take the colours in turn always meet.
void PipelineLinks::connect(Device& device) const {
  const Buffer memory(device, channels_.size(), MemoryKind::device);
  const ScopedCommLabel label("connection of the stages");
  const int next = (stage_ + 1) % shape_.stages;
  const int previous = (stage_ + shape_.stages - 1) % shape_.stages;
  for (const auto& group : groups_) {
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      const Channel& at = channels_[i];
      if (at.group == nullptr || at.group != group.get()) continue;
      const auto transfer =
          static_cast<ActionKind>(i + static_cast<std::size_t>(ActionKind::send_forward));
      const Tensor byte{memory.data() + i, DType::u8, Shape{1}};
      if (transfer == ActionKind::send_forward || transfer == ActionKind::send_backward) {
        device.fill_zero(*at.stream, byte.data, 1);
        at.group->send(*at.stream, byte, transfer == ActionKind::send_forward ? next : previous);
      } else {
        at.group->recv(*at.stream, byte, transfer == ActionKind::recv_forward ? previous : next);
      }
    }
  }
  synchronize();
}

const PipelineLinks::Channel& PipelineLinks::channel(ActionKind transfer) const {
  TRIREME_EXPECTS(!is_compute(transfer), "computations have no channel");
  const Channel& channel = channels_[index_of(transfer)];
  TRIREME_EXPECTS(channel.group != nullptr, "stage {} has no neighbour on this side", stage_);
  return channel;
}

Stream& PipelineLinks::stream(ActionKind transfer) const {
  return *channel(transfer).stream;
}

void PipelineLinks::start(const Action& transfer, const Tensor& data) const {
  const Channel& at = channel(transfer.kind);
  const int peer = peer_of(shape_, stage_, transfer).stage;
  const bool sends =
      transfer.kind == ActionKind::send_forward || transfer.kind == ActionKind::send_backward;
  std::array<char, 64> text{};
  const auto end = fmt::format_to_n(text.data(), text.size(), "{} of micro-batch {}, chunk {}",
                                    shows_gradient(transfer.kind) ? "gradient" : "activation",
                                    transfer.micro_batch, transfer.chunk);
  const ScopedCommLabel label(std::string_view(text.data(), std::min(end.size, text.size())));
  if (sends) {
    at.group->send(*at.stream, data, peer);
  } else {
    at.group->recv(*at.stream, data, peer);
  }
}

void PipelineLinks::synchronize() const {
  for (const Channel& channel : channels_) {
    if (channel.stream) channel.stream->synchronize();
  }
}

}  // namespace trireme
