// SPDX-License-Identifier: Apache-2.0
// The runs that a place on a command line names: a run directory, a directory of runs (of a job
// array, a study, a campaign), or a pattern.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace trireme::runs {

// In natural order, run_2 before run_10; the place itself if it contains no run.
[[nodiscard]] std::vector<std::string> runs_at(std::string place);

// Distinguishing names: the parts of the paths without common beginnings and ends,
// "000-base/seed-1" of "study/runs/000-base/seed-1/run"; for a single run the last part.
[[nodiscard]] std::vector<std::string> distinguishing_names(std::span<const std::string> runs);

}  // namespace trireme::runs
