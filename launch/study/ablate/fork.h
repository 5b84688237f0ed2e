// SPDX-License-Identifier: Apache-2.0
// A run directory that continues from another run's checkpoint.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::ablate {

// Whether the run in `directory` has a checkpoint of `step`, or, if `last`, its final weights. Does
// not verify it: the run that continues from it does.
[[nodiscard]] bool has_reached(const std::string& directory, std::int64_t step, bool last);

// Makes `to` a run that has done the first `step` steps of `from`: that step's checkpoint, by hard
// links if possible (committed files are never written to), and the records up to it. All or
// nothing; after a kill, unfinished work is redone. Raises ExitCode::checkpoint if `from` has no
// such checkpoint.
void fork_run(const std::string& from, const std::string& to, std::int64_t step);

}  // namespace trireme::ablate
