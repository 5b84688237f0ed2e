// SPDX-License-Identifier: Apache-2.0
// Which variants go on after a rung of successive halving.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/study/ablate/study.h"

namespace trireme::ablate {

// A variant at a rung: by seed, its metric less the base's of the same seed; nothing of a seed that
// has failed.
struct Standing {
  std::size_t variant = 0;
  std::vector<std::optional<double>> differences{};
};

struct Judgement {
  std::vector<std::size_t> stopped{};  // variants
  std::string text{};                  // "after step 100: a (-0.1), b (+0.2) go on; c stopped"
};

// Of `standings`, without the base, which always goes on: the Halving::keep of them with the least
// mean difference, at least one, the earlier where two are equal. One without any difference that
// is a number is stopped.
[[nodiscard]] Judgement judge(const Study& study, std::int64_t step,
                              std::span<const Standing> standings);

}  // namespace trireme::ablate
