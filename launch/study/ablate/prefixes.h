// SPDX-License-Identifier: Apache-2.0
// Finds the steps in which several variants are the same training, and continues them from there.
//
// Two variants are alike in a step if all keys except the learning-rate schedule and train.steps
// are equal and the step's learning rate has the same bits; up to fork_step all variants equal the
// base. Steps 1 to n that are alike are trained once, and the other variants continue from that
// checkpoint. This is exact: a checkpoint holds all that step n + 1 needs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "launch/study/ablate/study.h"

namespace trireme::ablate {

// Steps from + 1 to `to`, trained once for all members.
struct Segment {
  std::vector<std::size_t> members;  // indices of Study::variants, ascending
  std::int64_t from = 0, to = 0;
};

// The next segments after step `from`, up to which all members were alike: one per group that
// stays alike for at least Study::share_from steps, and one for each other unfinished member. They
// end at `limit` or the fork step at the latest. A shared one ends before any member's last step,
// because its evaluation and final weights follow that step.
[[nodiscard]] std::vector<Segment> next_segments(const Study& study,
                                                 std::span<const std::size_t> members,
                                                 std::int64_t from, std::int64_t limit);

// Whether the run in `directory` has a checkpoint of `step`, or, if `last`, its final weights. Does
// not verify it: the run that continues from it does.
[[nodiscard]] bool has_reached(const std::string& directory, std::int64_t step, bool last);

// Makes `to` a run that has done the first `step` steps of `from`: that step's checkpoint, by hard
// links if possible (committed files are never written to), and the records up to it. All or
// nothing; after a kill, unfinished work is redone. Raises ExitCode::checkpoint if `from` has no
// such checkpoint.
void fork_run(const std::string& from, const std::string& to, std::int64_t step);

}  // namespace trireme::ablate
