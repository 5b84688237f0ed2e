// SPDX-License-Identifier: Apache-2.0
// Measures pieces of a stream's work with events. Steps alternate between two sets, so one can be
// read while the next runs.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "runtime/device/device.h"

namespace trireme {

class StreamClock {
 public:
  explicit StreamClock(Device& device) : device_(device) {}

  // Later pieces belong to step `step`. Creates events only in the first two steps if every step
  // has equally many pieces.
  void begin_step(std::int64_t step);
  void start(Stream& stream);
  void stop(Stream& stream);
  // Sum over all pieces of a finished step.
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
