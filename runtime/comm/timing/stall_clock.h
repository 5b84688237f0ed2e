// SPDX-License-Identifier: Apache-2.0
// Time that a compute stream waits for communication, by phase of a step. Every such wait for a
// collective goes through wait_for_comm().
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/device/device.h"

namespace trireme {

// Measures pieces of a stream's work with events. Steps alternate between two sets, so one can be
// read while the next runs.
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

// What a stream waits for.
enum class StallCause : std::uint8_t {
  sum,     // of a group's values
  gather,  // of parameters
  experts  // rows on their way to experts and back
};

class StallClock {
 public:
  explicit StallClock(Device& device) : phases_{clocks(device), clocks(device), clocks(device)} {}
  StallClock(const StallClock&) = delete;
  StallClock& operator=(const StallClock&) = delete;

  void begin_step(std::int64_t step);
  // Of a step whose work is done.
  struct Milliseconds {
    double forward = 0, backward = 0, update = 0;  // waits for any cause
    double gathers = 0;                            // parts of all three: for parameters
    double experts = 0;                            // likewise: for rows of experts
    double update_sums = 0;                        // part of update: for sums, those of norms
  };
  [[nodiscard]] Milliseconds milliseconds(std::int64_t step) const;

 private:
  friend class StallPhase;
  friend void wait_for_comm(Stream& compute, Event& done, StallClock* clock, StallCause cause);
  using Clocks = std::array<StreamClock, 3>;  // by cause
  static Clocks clocks(Device& device) {
    return {StreamClock(device), StreamClock(device), StreamClock(device)};
  }

  std::array<Clocks, 3> phases_;  // by StallPhase::Phase
  Clocks* now_ = nullptr;         // outside of phases waits are not timed
};

// Work enqueued during the object's life belongs to this phase; phases nest.
class StallPhase {
 public:
  enum Phase { forward, backward, update };
  StallPhase(StallClock& clock, Phase phase) noexcept;
  ~StallPhase() { clock_.now_ = outer_; }
  StallPhase(const StallPhase&) = delete;
  StallPhase& operator=(const StallPhase&) = delete;

 private:
  StallClock& clock_;
  StallClock::Clocks* outer_;
};

// Work enqueued on `compute` from here on starts after `done`. Recorded work is not timed, because
// the host cannot read its events. A null clock times nothing.
void wait_for_comm(Stream& compute, Event& done, StallClock* clock, StallCause cause);

}  // namespace trireme
