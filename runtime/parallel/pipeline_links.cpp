// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/pipeline_links.h"

#include <fmt/core.h>

#include <algorithm>

#include "runtime/comm/comm_label.h"

namespace trireme {
namespace {

// Links around the ring of stages are coloured so that the two that meet at a stage differ: two
// streams never meet in one group. A ring of odd length needs a third colour for the link that
// closes it.
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
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    groups_[i] = pipeline.split(
        0, pipeline.rank(),
        fmt::format("{}.{}{}", pipeline.name(), i < 3 ? "forward" : "backward", i % 3));
  }
  const int before = (stage_ + shape.stages - 1) % shape.stages;
  const std::size_t onward = colour_of_link(stage_, shape.stages);
  const std::size_t inward = colour_of_link(before, shape.stages);
  const auto open = [&](ActionKind transfer, std::size_t group) {
    channels_[index_of(transfer)] = {device.make_stream(StreamKind::comm), groups_[group].get()};
  };
  const bool ring = shape.chunks > 1;
  if (ring || stage_ + 1 < shape.stages) {
    open(ActionKind::send_forward, onward);
    open(ActionKind::recv_backward, 3 + onward);
  }
  if (ring || stage_ > 0) {
    open(ActionKind::recv_forward, inward);
    open(ActionKind::send_backward, 3 + inward);
  }
}

const PipelineLinks::Channel& PipelineLinks::channel(ActionKind transfer) const {
  TRIREME_EXPECTS(!is_compute(transfer), "a computation has no channel");
  const Channel& channel = channels_[index_of(transfer)];
  TRIREME_EXPECTS(channel.group != nullptr, "stage {} has no such neighbour", stage_);
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
