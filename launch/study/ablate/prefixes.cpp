// SPDX-License-Identifier: Apache-2.0
#include "launch/study/ablate/prefixes.h"

#include <algorithm>

#include "models/config.h"
#include "runtime/optim/lr_schedule.h"

namespace trireme::ablate {
namespace {

bool shapes_the_curve(const std::string& key) {
  return key.starts_with("lr_schedule.") || key == "optimizer.learning_rate" ||
         key == "train.steps" || key == "run.seed";
}

KeyValues without_curve(const Config& config) {
  KeyValues values = values_by_key(config);
  std::erase_if(values, [](const auto& one) { return shapes_the_curve(one.first); });
  return values;
}

LrSchedule curve_of(const Config& config) {
  const LrScheduleConfig& schedule = config.lr_schedule;
  return {.kind = schedule.name,
          .peak = config.optimizer.learning_rate,
          .steps = config.train.steps,
          .warmup_steps = schedule.warmup_steps,
          .minimum_ratio = schedule.minimum_ratio,
          .decay_fraction = schedule.decay_fraction};
}

// A variant as a sequence of steps.
class Steps {
 public:
  Steps(const Study& study, std::size_t variant)
      : fork_step_(study.fork_step),
        keys_(without_curve(study.variants[variant].config)),
        curve_(curve_of(study.variants[variant].config)) {}

  // In step `step`, which counts from 1.
  [[nodiscard]] bool alike(const Steps& other, std::int64_t step) const {
    if (step <= fork_step_) return true;
    return keys_ == other.keys_ && same_rate(other, step);
  }
  // The last step from `from` on up to which they are alike, at most `limit`.
  [[nodiscard]] std::int64_t alike_up_to(const Steps& other, std::int64_t from,
                                         std::int64_t limit) const {
    from = std::max(from, std::min(fork_step_, limit));
    if (keys_ != other.keys_) return from;
    while (from < limit && same_rate(other, from + 1))
      ++from;
    return from;
  }

 private:
  [[nodiscard]] bool same_rate(const Steps& other, std::int64_t step) const {
    return curve_.at(step - 1) == other.curve_.at(step - 1);
  }

  std::int64_t fork_step_;
  KeyValues keys_;
  LrSchedule curve_;
};

struct Group {
  Steps first;
  std::vector<std::size_t> members;
};

std::vector<Group> groups_of(const Study& study, std::span<const std::size_t> members,
                             std::int64_t from) {
  std::vector<Group> groups;
  for (const std::size_t member : members) {
    if (study.steps_of(member) <= from) continue;
    Steps steps(study, member);
    const auto same = std::ranges::find_if(
        groups, [&](const Group& group) { return group.first.alike(steps, from + 1); });
    if (same == groups.end()) {
      groups.push_back({std::move(steps), {member}});
    } else {
      same->members.push_back(member);
    }
  }
  return groups;
}

}  // namespace

std::vector<Stretch> next_stretches(const Study& study, std::span<const std::size_t> members,
                                    std::int64_t from, std::int64_t limit) {
  if (from < study.fork_step) limit = std::min(limit, study.fork_step);
  std::vector<Stretch> stretches;
  for (const Group& group : groups_of(study, members, from)) {
    std::int64_t to = limit;
    for (const std::size_t member : group.members)
      to = std::min(to, study.steps_of(member) - 1);
    for (const std::size_t member : group.members)
      to = group.first.alike_up_to(Steps(study, member), from, to);
    const bool forced = from < study.fork_step;  // by definition, however short
    const bool worth = study.share_from > 0 && to - from >= study.share_from;
    if (group.members.size() > 1 && to > from && (forced || worth)) {
      stretches.push_back({.members = group.members, .from = from, .to = to});
      continue;
    }
    for (const std::size_t member : group.members)
      stretches.push_back(
          {.members = {member}, .from = from, .to = std::min(limit, study.steps_of(member))});
  }
  return stretches;
}

}  // namespace trireme::ablate
