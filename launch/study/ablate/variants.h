// SPDX-License-Identifier: Apache-2.0
// From a study's grid, list and ranges to its variants: names and settings. Pure functions of the
// file.
#pragma once

#include <vector>

#include "launch/study/ablate/study.h"
#include "launch/study/ablate/study_file.h"

namespace trireme::ablate {

// The base; then every combination of the grid, the list, and the draws, which are a function of
// their seed. Their configs are not loaded yet. Raises ExitCode::config where there are more than
// 1,000, or two have one name.
[[nodiscard]] std::vector<Variant> variants_of(const StudyFile& file);

}  // namespace trireme::ablate
