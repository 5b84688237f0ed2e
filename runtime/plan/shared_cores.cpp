// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/shared_cores.h"

#include <algorithm>
#include <array>
#include <limits>

#include "runtime/base/error.h"

namespace trireme::plan {
namespace {

constexpr double not_known = std::numeric_limits<double>::infinity();

class Replay {
 public:
  Replay(const SharedCores& machine, const ScheduleShape& shape, const Costs& costs)
      : machine_(machine), shape_(shape), costs_(costs) {
    const auto results = static_cast<std::size_t>(virtual_stages(shape)) *
                         static_cast<std::size_t>(shape.micro_batches);
    for (std::vector<double>& kind : done_at_)
      kind.assign(results, not_known);
    for (int stage = 0; stage < shape.stages; ++stage) {
      Stage state;
      for (const Action& action : stage_actions(shape, stage)) {
        if (is_compute(action.kind)) state.list.push_back(action);
      }
      stages_.push_back(std::move(state));
    }
    delay_ = std::min(machine.scheduling_delay, mean_seconds());
  }

  Timeline run() {
    while (start_what_is_ready())
      advance();
    Timeline timeline;
    for (Stage& stage : stages_) {
      TRIREME_EXPECTS(stage.spans.size() == stage.list.size(), "a stage waits for ever");
      timeline.makespan = std::max(timeline.makespan, stage.spans.back().end);
      timeline.stages.push_back(std::move(stage.spans));
    }
    return timeline;
  }

 private:
  struct Stage {
    std::vector<Action> list;  // computations
    std::vector<Span> spans;   // those begun
    bool computing = false;    // the last of them
    double left = 0;           // seconds of a whole core that it still needs
    double ready = not_known;  // when the next can begin, if it waits for a known time
  };

  // Of a computation.
  [[nodiscard]] double mean_seconds() const {
    double sum = 0;
    std::size_t count = 0;
    for (int s = 0; s < shape_.stages; ++s) {
      const auto& list = stages_[static_cast<std::size_t>(s)].list;
      for (const Action& action : list)
        sum += seconds_of(shape_, costs_, s, action);
      count += list.size();
    }
    return sum / static_cast<double>(count);
  }

  double& done_at(ActionKind kind, int virtual_stage, int micro_batch) {
    return done_at_[static_cast<std::size_t>(kind)]
                   [static_cast<std::size_t>(virtual_stage * shape_.micro_batches + micro_batch)];
  }

  // When `action` has what it needs from another stage; not_known where that is not computed yet.
  double arrival(int stage, const Action& action) {
    const int here = virtual_stage(shape_, stage, action.chunk);
    const bool forward = action.kind == ActionKind::forward;
    const int source = forward ? here - 1 : here + 1;
    if (action.kind == ActionKind::backward_weight || source < 0 ||
        source == virtual_stages(shape_))
      return 0;
    return done_at(action.kind, source, action.micro_batch) + costs_.transfer + delay_;
  }

  // False when everything is done.
  bool start_what_is_ready() {
    bool unfinished = false;
    for (int s = 0; s < shape_.stages; ++s) {
      Stage& stage = stages_[static_cast<std::size_t>(s)];
      stage.ready = not_known;
      if (!stage.computing && stage.spans.size() < stage.list.size()) {
        const Action& next = stage.list[stage.spans.size()];
        const double ready = arrival(s, next);
        if (ready <= now_) {
          stage.computing = true;
          stage.left = seconds_of(shape_, costs_, s, next);
          stage.spans.push_back({next, now_, not_known});
        } else {
          stage.ready = ready;
        }
      }
      unfinished = unfinished || stage.computing || stage.ready < not_known;
    }
    return unfinished;
  }

  // To the next moment at which a computation ends or something arrives.
  void advance() {
    const auto active = static_cast<double>(std::ranges::count(stages_, true, &Stage::computing));
    const double rate = active > 0 ? std::min(1.0, machine_.cores / active) : 1;
    double until = not_known;
    for (const Stage& stage : stages_)
      until = std::min(until, stage.computing ? now_ + stage.left / rate : stage.ready);
    for (int s = 0; s < shape_.stages; ++s) {
      Stage& stage = stages_[static_cast<std::size_t>(s)];
      if (!stage.computing) continue;
      if (now_ + stage.left / rate > until) {
        stage.left -= (until - now_) * rate;
        continue;
      }
      stage.computing = false;
      Span& span = stage.spans.back();
      span.end = until;
      done_at(span.action.kind, virtual_stage(shape_, s, span.action.chunk),
              span.action.micro_batch) = until;
    }
    now_ = until;
  }

  const SharedCores& machine_;
  const ScheduleShape& shape_;
  const Costs& costs_;
  std::vector<Stage> stages_;
  std::array<std::vector<double>, 3> done_at_;  // by kind of computation
  double now_ = 0, delay_ = 0;
};

}  // namespace

Timeline simulate_on(const SharedCores& machine, const ScheduleShape& shape, const Costs& costs) {
  return Replay(machine, shape, costs).run();
}

}  // namespace trireme::plan
