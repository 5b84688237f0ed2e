// SPDX-License-Identifier: Apache-2.0
// The four channels of a pipeline stage (schedule.h): each has its own stream and group, so
// transfers wait only for their own channel.
#pragma once

#include <array>
#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/parallel/schedule.h"

namespace trireme {

class PipelineLinks {
 public:
  // Collective over `pipeline`, whose rank is the stage. A single stage has no channels. On GPUs
  // sends a byte over each channel, so that nothing connects in the middle of a step.
  PipelineLinks(Device& device, Communicator& pipeline, const ScheduleShape& shape);

  // The stream of a send or receive action.
  [[nodiscard]] Stream& stream(ActionKind transfer) const;
  // Enqueues the transfer of `data` on that stream.
  void start(const Action& transfer, const Tensor& data) const;
  // Blocks the host until every channel is idle.
  void synchronize() const;

 private:
  struct Channel {
    std::unique_ptr<Stream> stream;
    Communicator* group = nullptr;
  };
  [[nodiscard]] const Channel& channel(ActionKind transfer) const;
  void connect(Device& device) const;

  ScheduleShape shape_;
  int stage_;
  std::array<std::unique_ptr<Communicator>, 6> groups_;
  std::array<Channel, 4> channels_;
};

}  // namespace trireme
