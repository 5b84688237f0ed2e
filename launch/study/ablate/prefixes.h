// SPDX-License-Identifier: Apache-2.0
// Which variants are the same training up to which step.
//
// Two variants are alike in a step where every key but those of the learning rate's curve and
// train.steps is the same and the learning rate of the step has the same bits; up to fork_step all
// are the base. What is alike in steps 1 to n is trained once, by any of them, and the others go on
// from its checkpoint: exact, as a checkpoint holds all that step n + 1 needs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "launch/study/ablate/study.h"

namespace trireme::ablate {

// Steps from + 1 to `to`, trained once for all members.
struct Stretch {
  std::vector<std::size_t> members;  // indices of Study::variants, ascending
  std::int64_t from = 0, to = 0;
};

// The members' next stretches after step `from`, up to which all have been alike: of each group
// that stays alike for at least Study::share_from steps one, and one for each other member; none
// for a member that has done its steps. None goes beyond `limit`, the fork's step, or a member's
// last step but one where it is shared: the last is followed by its evaluation and its weights.
[[nodiscard]] std::vector<Stretch> next_stretches(const Study& study,
                                                  std::span<const std::size_t> members,
                                                  std::int64_t from, std::int64_t limit);

}  // namespace trireme::ablate
