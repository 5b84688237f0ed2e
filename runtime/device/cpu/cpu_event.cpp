// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/cpu_event.h"

#include <mutex>

namespace trireme {

struct CpuEvent::State {
  std::mutex mutex;
  Point point;
  std::uint64_t generation = 0;  // counts records; stamps of older ones are dropped
  std::uint64_t stamped = 0;     // the generation that `time` belongs to
  Clock::time_point time;
};

CpuEvent::CpuEvent() : state_(std::make_shared<State>()) {}

CpuEvent& CpuEvent::of(Event& event) {
  auto* const cpu = dynamic_cast<CpuEvent*>(&event);
  TRIREME_EXPECTS(cpu != nullptr, "a CPU stream needs a CPU event");
  return *cpu;
}

CpuEvent::Point CpuEvent::point() const {
  const std::lock_guard lock(state_->mutex);
  return state_->point;
}

CpuEvent::Clock::time_point CpuEvent::time() const {
  const std::lock_guard lock(state_->mutex);
  TRIREME_EXPECTS(state_->generation > 0 && state_->stamped == state_->generation,
                  "the event was not recorded, not reached, or its stream failed");
  return state_->time;
}

bool CpuEvent::reached() const {
  const Point at = point();
  return at.core == nullptr || at.core->done(at.ticket);
}

void CpuEvent::synchronize() {
  const Point at = point();
  if (at.core != nullptr) at.core->await(at.ticket);
}

double CpuEvent::milliseconds_since(const Event& start) const {
  const auto* const from = dynamic_cast<const CpuEvent*>(&start);
  TRIREME_EXPECTS(from != nullptr, "the time between events of two back ends");
  return std::chrono::duration<double, std::milli>(time() - from->time()).count();
}

void CpuEvent::record_on(CpuStream& stream) {
  std::uint64_t generation = 0;
  {
    const std::lock_guard lock(state_->mutex);
    generation = ++state_->generation;
    if (stream.core() == nullptr) {
      state_->point = {};
      state_->stamped = generation;
      state_->time = Clock::now();
      return;
    }
  }
  // Pushed without the lock: a full ring waits for tasks that may themselves be stamping this
  // event.
  const StreamCore::Ticket ticket = stream.core()->push([state = state_, generation] {
    const std::lock_guard lock(state->mutex);
    if (state->generation != generation) return;
    state->stamped = generation;
    state->time = Clock::now();
  });
  const std::lock_guard lock(state_->mutex);
  state_->point = {stream.core(), ticket};
}

void CpuEvent::make_wait(CpuStream& stream) {
  Point at = point();
  if (at.core == nullptr || at.core == stream.core()) return;
  stream.enqueue([at = std::move(at)] { at.core->await(at.ticket); });
}

}  // namespace trireme
