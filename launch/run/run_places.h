// SPDX-License-Identifier: Apache-2.0
// Which runs a place on a command line means: a run's directory, one that holds some (of a job
// array, a study, a campaign), or a pattern.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace trireme::runs {

// In order, run_2 before run_10; the place itself where no run is there.
[[nodiscard]] std::vector<std::string> runs_at(std::string place);

// What tells each from the others: the parts of its path that not all of them begin or end with,
// "000-base/seed-1" of "study/runs/000-base/seed-1/run"; of one run its last part.
[[nodiscard]] std::vector<std::string> distinguishing_names(std::span<const std::string> runs);

}  // namespace trireme::runs
