// SPDX-License-Identifier: Apache-2.0
// Which variants continue after a rung of successive halving.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/study/ablate/study.h"

namespace trireme::ablate {

// A variant at a rung: per seed, its metric minus the base's; nothing for a failed seed.
struct Standing {
  std::size_t variant = 0;
  std::vector<std::optional<double>> differences{};
};

struct Judgement {
  std::vector<std::size_t> stopped{};  // variants
  std::string text{};                  // "after step 100: a (-0.1), b (+0.2) go on; c stopped"
};

// Keeps the fraction Halving::keep of `standings` (without the base, which always continues) with
// the least mean difference, at least one; ties: the earlier. A variant without any numeric
// difference is stopped.
[[nodiscard]] Judgement judge(const Study& study, std::int64_t step,
                              std::span<const Standing> standings);

}  // namespace trireme::ablate
