// SPDX-License-Identifier: Apache-2.0
// How long pieces of a stream's work take, measured with events. Steps alternate between two sets,
// so that one is read while the next runs.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "runtime/device/device.h"

namespace trireme {

class StreamClock {
 public:
  explicit StreamClock(Device& device) : device_(device) {}

  // Later pieces are of step `step`. Makes events in the first two steps only, where every step has
  // as many pieces.
  void begin_step(std::int64_t step);
  void start(Stream& stream);
  void stop(Stream& stream);
  // Of all pieces of a step whose work is done.
  [[nodiscard]] double milliseconds(std::int64_t step) const;

 private:
  struct Piece {
    std::unique_ptr<Event> start, stop;
  };
  struct Step {
    std::vector<Piece> pieces;
    std::size_t used = 0;
  };

  Device& device_;
  std::array<Step, 2> steps_;
  Step* now_ = &steps_[0];
};

}  // namespace trireme
