// SPDX-License-Identifier: Apache-2.0
// Student's t (launch/study/scale/interval.h) of differences, corrected for the number of tests
// (Holm, 1979). Pure functions.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace trireme::ablate {

// Of paired differences: how probable a mean as far from 0 is where there is no effect.
[[nodiscard]] std::optional<double> paired_p(std::span<const double> differences);

// Holm's correction: who calls those at most 0.05 an effect finds one where there is none in at
// most 5 of 100 families of tests, however the tests depend on each other. Tests that were planned
// and gave no value count too, as p = 1.
[[nodiscard]] std::vector<double> holm(std::span<const std::optional<double>> p);

}  // namespace trireme::ablate
