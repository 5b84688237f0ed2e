// SPDX-License-Identifier: Apache-2.0
// A run directory that goes on from another's checkpoint.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::ablate {

// Whether the run in `directory` has a checkpoint of `step`, or weights of its end where `last`.
// It is not verified here: the run that goes on from it does that.
[[nodiscard]] bool has_reached(const std::string& directory, std::int64_t step, bool last);

// Makes `to` a run that has done the first `step` steps of `from`: its checkpoint of that step, by
// hard links where they can be made (a committed file is never written to), and its records up to
// there. All or nothing; what a kill left half done is made again. Raises ExitCode::checkpoint
// where `from` has no such checkpoint.
void fork_run(const std::string& from, const std::string& to, std::int64_t step);

}  // namespace trireme::ablate
