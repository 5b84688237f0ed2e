// SPDX-License-Identifier: Apache-2.0
// Student's t (launch/study/scale/interval.h) of paired differences, corrected for the number of
// tests (Holm, 1979). Pure functions.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace trireme::ablate {

// Two-sided p-value of paired differences: the null hypothesis is a mean of 0.
[[nodiscard]] std::optional<double> paired_p(std::span<const double> differences);

// Holm's correction: with threshold 0.05, the probability of any false positive in the family is at
// most 5 %, however the tests depend on each other. Planned tests without a value count too, as p =
// 1.
[[nodiscard]] std::vector<double> holm(std::span<const std::optional<double>> p);

}  // namespace trireme::ablate
